"""What the model makes of given translations: their probabilities, and who attended to whom.

Ids come without marks. Shapes: B pairs, T target tokens, S source tokens, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from allyouneed.inference.engine import Ids
from allyouneed.inference.translations import Details
from allyouneed.model.attention import MultiHeadAttention, watching
from allyouneed.model.transformer import Transformer
from allyouneed.rows import Rows, one_sentence_a_row
from allyouneed.text.tokenizer import BEGIN, END, PAD
from allyouneed.visualization.attention import Weights, aligning_layer


@torch.inference_mode()
def token_log_probs(
    model: Transformer, sources: Sequence[Ids], targets: Sequence[Ids]
) -> list[list[float]]:
    """log P of every target token and, last, of the end mark.

    A target that was cut where the model knows no further position has no end mark.
    """
    src, tgt = rows_of(model, sources, [_read_by_decoder(model, target) for target in targets])
    ends = [[*target, END][: model.max_length] for target in targets]
    following = one_sentence_a_row(ends, PAD).to(model.device)
    log_probs = model(src, tgt).float().log_softmax(-1)  # (B, T, V)
    chosen = log_probs.gather(-1, following.ids.unsqueeze(-1)).squeeze(-1).tolist()
    return [row[: len(its)] for row, its in zip(chosen, ends, strict=True)]


@torch.inference_mode()
def alignment_weights(
    model: Transformer, sources: Sequence[Ids], targets: Sequence[Ids]
) -> list[Weights]:
    """How much the step that made each target token attended to each source token, (T, S + 1).

    The last column is the end mark. It is the mean over the heads of `aligning_layer`.
    """
    src, tgt = rows_of(model, sources, [_read_by_decoder(model, target) for target in targets])
    heads = _aligning_heads(model)
    with watching([heads]) as watched:
        model.decode(tgt, model.encode(src), src)
    return _cut_to_size(watched[heads], sources, targets)


@torch.inference_mode()
def details(model: Transformer, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Details]:
    """`token_log_probs` and `alignment_weights` in one pass."""
    heads = _aligning_heads(model)
    with watching([heads]) as watched:
        log_probs = token_log_probs(model, sources, targets)
    weights = _cut_to_size(watched[heads], sources, targets)
    return [Details(tuple(its), seen) for its, seen in zip(log_probs, weights, strict=True)]


def _read_by_decoder(model: Transformer, target: Ids) -> list[int]:
    return [BEGIN, *target][: model.max_length]


def _aligning_heads(model: Transformer) -> MultiHeadAttention:
    layers = list(model.decoder.layers)
    heads = layers[aligning_layer(len(layers))].get_submodule("memory_attention")
    assert isinstance(heads, MultiHeadAttention)
    return heads


def _cut_to_size(weights: Tensor, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Weights]:
    """The mean over the heads, (B, H, T, S), without padding."""
    means = weights.mean(1).float().cpu().numpy()
    return [
        row[: len(target), : len(source) + 1]
        for row, source, target in zip(means, sources, targets, strict=True)
    ]


def rows_of(
    model: Transformer, sources: Sequence[Ids], targets: Sequence[Ids]
) -> tuple[Rows, Rows]:
    """Rows where the model is; the sources get their end mark, the targets stay as they are."""
    device = model.device
    src = one_sentence_a_row([[*source, END] for source in sources], PAD)
    return src.to(device), one_sentence_a_row(targets, PAD).to(device)
