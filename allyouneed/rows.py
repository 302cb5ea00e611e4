"""The one batch format, and the one rule of who may see whom (section 3.2.3).

A batch is rows of one width; a row holds one sentence or several whole ones. One sentence a row
is the padded batch of textbooks, many a row the packed batch of fast training; the model cannot
tell them apart.

Shapes: B rows, T width (S where rows are attended to).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

PADDING = -1  # in Rows.sentence


class Rows(NamedTuple):
    """Ids, and for each of them where it stands."""

    ids: Tensor  # (B, T)
    sentence: Tensor  # (B, T): which sentence of its row a token belongs to, or PADDING
    position: Tensor  # (B, T): its place in that sentence, from 0

    def to(self, device: torch.device | str) -> "Rows":
        return Rows(*(tensor.to(device, non_blocking=True) for tensor in self))


def one_sentence_a_row(sentences: Sequence[Sequence[int]], pad_id: int = 0) -> Rows:
    """The padded batch: as wide as its longest sentence."""
    width = max(map(len, sentences))
    ids = torch.full((len(sentences), width), pad_id)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = torch.tensor(sentence, dtype=torch.long)
    position = torch.arange(width).expand_as(ids)
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    return Rows(ids, torch.where(position < lengths[:, None], 0, PADDING), position)


def visible(queries: Rows, keys: Rows) -> Tensor:
    """Encoder and encoder-decoder attention: a token sees its own sentence. (B, 1, T, S).

    Padding as a query sees everything: nobody reads what it makes of that, and a softmax over
    nothing would be not-a-number.
    """
    query, key = queries.sentence[:, :, None], keys.sentence[:, None, :]
    return ((query == key) | (query == PADDING)).unsqueeze(1)


def visible_so_far(rows: Rows) -> Tensor:
    """Decoder self-attention: its own sentence, and nothing later. (B, 1, T, T)."""
    earlier = rows.position[:, :, None] >= rows.position[:, None, :]
    padding = rows.sentence[:, :, None] == PADDING
    return visible(rows, rows) & (earlier | padding).unsqueeze(1)
