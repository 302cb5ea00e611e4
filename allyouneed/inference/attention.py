"""Every head's weights for one finished pair, in one more pass over it."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from allyouneed.errors import DataError
from allyouneed.inference.teacher_forcing import rows_of
from allyouneed.model.transformer import Transformer
from allyouneed.text.tokenizer import BEGIN, Tokenizer
from allyouneed.visualization.attention import Attention, Weights


def attend(
    model: Transformer,
    tokenizer: Tokenizer,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    max_source_tokens: int,
) -> Attention:
    """Tokens come as pieces, without marks."""
    if not source_tokens:
        raise DataError("a blank text has no tokens to attend to; give a sentence")
    if len(source_tokens) > max_source_tokens:
        raise DataError(
            f"the text has {len(source_tokens)} tokens, and the model takes {max_source_tokens} "
            "at once; give one sentence of it"
        )
    if len(target_tokens) >= (model.max_length or math.inf):
        raise DataError(
            f"the translation has {len(target_tokens)} tokens, and the model knows "
            f"{model.max_length} positions; give a shorter one"
        )
    source, target = tokenizer.ids(source_tokens), tokenizer.ids(target_tokens)
    maps = model.attention_maps(*rows_of(model, [source], [[BEGIN, *target]]))
    weights = (_stacked(layers) for layers in maps)
    return Attention(tuple(source_tokens), tuple(target_tokens), *weights)


def _stacked(layers: Sequence[Tensor]) -> Weights:
    """The layers (1, H, T, S) of a batch of one as (L, H, T, S)."""
    return torch.cat(list(layers)).float().cpu().numpy()
