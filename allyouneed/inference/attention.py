"""Every head's weights for one finished pair, in one more pass over it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from allyouneed.inference.teacher_forcing import Ids, rows_of
from allyouneed.model.transformer import Transformer
from allyouneed.text.tokenizer import BEGIN, Tokenizer
from allyouneed.visualization.attention import Attention, Weights


def attend(model: Transformer, tokenizer: Tokenizer, source: Ids, target: Ids) -> Attention:
    """`source` and `target` come without marks."""
    maps = model.attention_maps(*rows_of(model, [source], [[BEGIN, *target]]))
    return Attention(
        tuple(tokenizer.pieces(source)),
        tuple(tokenizer.pieces(target)),
        *(_stacked(layers) for layers in maps),
    )


def _stacked(layers: Sequence[Tensor]) -> Weights:
    """The layers (1, H, T, S) of a batch of one as (L, H, T, S)."""
    return torch.cat(list(layers)).float().cpu().numpy()
