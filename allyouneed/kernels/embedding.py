"""Dropout(embedding · sqrt(d_model) + position), and its way back into both tables.

Shapes: N tokens, V vocabulary, P positions, d_model.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from allyouneed.kernels.dropout import kept


@triton.jit
def _embed(
    ids, positions, embedding, position_table, x, seed, dropout, scale,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    vector = tl.load(embedding + tl.load(ids + token) * WIDTH + column, inside).to(tl.float32)
    position = tl.load(position_table + tl.load(positions + token) * WIDTH + column, inside)
    place = token * WIDTH + column
    value = (vector * scale + position) / (1 - dropout)
    tl.store(x + place, tl.where(kept(place, seed, dropout), value, 0.0), inside)


@triton.jit
def _embed_backward(
    dx, rows, table_gradient, seed, dropout, scale,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    place = token * WIDTH + column
    gradient = tl.load(dx + place, inside).to(tl.float32) * (scale / (1 - dropout))
    gradient = tl.where(kept(place, seed, dropout), gradient, 0.0)
    tl.atomic_add(
        table_gradient + tl.load(rows + token) * WIDTH + column, gradient, inside, sem="relaxed"
    )


def embed(
    ids: Tensor, positions: Tensor, embedding: Tensor, position_table: Tensor,
    seed: Tensor, dropout: float,
) -> Tensor:  # fmt: skip
    """ids and positions (N,), embedding (V, d_model), position_table (P, d_model) float32."""
    width = embedding.size(1)
    x = embedding.new_empty(len(ids), width)
    _embed[(len(ids),)](
        ids, positions, embedding, position_table, x, seed, dropout, width**0.5,
        WIDTH=width, BLOCK=triton.next_power_of_2(width), num_warps=2,
    )  # fmt: skip
    return x


def embed_backward_(
    table_gradient: Tensor, rows: Tensor, dx: Tensor, seed: Tensor, dropout: float,
    scale: float,
) -> None:  # fmt: skip
    """Add dx (N, d_model), through dropout and times `scale`, to these rows of a gradient."""
    assert table_gradient.dtype == torch.float32
    width = dx.size(1)
    _embed_backward[(len(rows),)](
        dx, rows, table_gradient, seed, dropout, scale,
        WIDTH=width, BLOCK=triton.next_power_of_2(width), num_warps=2,
    )  # fmt: skip
