"""The small models and batches that the tests of the model share."""

from collections.abc import Mapping, Sequence

import torch

from allyouneed.config import ModelConfig
from allyouneed.model import Transformer
from allyouneed.rows import PADDING, Rows, one_sentence_a_row

CONFIG = ModelConfig(vocab_size=19, n_layers=2, d_model=16, d_ff=24, n_heads=4, d_k=4, d_v=4)

SRC_SENTENCES = [[5, 6, 7, 8, 2], [9, 2], [10, 11, 12, 2]]
TGT_SENTENCES = [[1, 13, 14], [1, 15, 16, 17, 18], [1]]
SRC = one_sentence_a_row(SRC_SENTENCES)
TGT = one_sentence_a_row(TGT_SENTENCES)


def random_model(
    config: ModelConfig = CONFIG, dtype: torch.dtype = torch.float32, seed: int = 0
) -> Transformer:
    """A model in eval mode in which no gain is one and no bias zero, so that each one matters."""
    torch.manual_seed(seed)
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        model = Transformer(config).eval()
    finally:
        torch.set_default_dtype(default)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


def renamed(name: str, names: Mapping[str, str]) -> str:
    """Where another library keeps this weight: each of our names replaced, in order, by theirs."""
    for ours, theirs in names.items():
        name = name.replace(ours, theirs)
    return name


def packed(rows: Sequence[Sequence[Sequence[int]]], width: int) -> Rows:
    """Several sentences a row, then padding up to `width`."""
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    sentence = torch.full_like(ids, PADDING)
    position = torch.zeros_like(ids)
    for row, sentences in enumerate(rows):
        start = 0
        for number, tokens in enumerate(sentences):
            here = slice(start, start + len(tokens))
            ids[row, here] = torch.tensor(tokens)
            sentence[row, here] = number
            position[row, here] = torch.arange(len(tokens))
            start += len(tokens)
    return Rows(ids, sentence, position)
