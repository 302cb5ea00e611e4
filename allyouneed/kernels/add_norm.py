"""LayerNorm(x + Dropout(sublayer output + bias)) in one kernel each way.

Shapes: N tokens, d_model.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from allyouneed.kernels.dropout import kept

TILE = 2048  # values of a program at a time
WARPS = 2
PROGRAMS = 528  # of the backward kernel, each with sums of its own: four a multiprocessor


class Norm(NamedTuple):
    """What the kernels need to know of an `AddNorm`."""

    weight: Tensor  # (d_model,), float32
    bias: Tensor
    epsilon: float


class Normalised(NamedTuple):
    """What the way back needs of the way forth."""

    values: Tensor  # (N, d_model): (z − mean) / deviation
    inverse_deviation: Tensor  # (N,), float32


@triton.jit
def _add_norm(
    x, sublayer, sublayer_bias, weight, bias, y, normalised, inverse_deviation,
    seed, dropout, epsilon, n_rows,
    HAS_BIAS: tl.constexpr, SAVED: tl.constexpr,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    place = row * WIDTH + column
    inside = (row < n_rows) & (column < WIDTH)
    change = tl.load(sublayer + place, inside, 0.0).to(tl.float32)
    if HAS_BIAS:
        change += tl.load(sublayer_bias + column, column < WIDTH, 0.0).to(tl.float32)
    change = tl.where(kept(place, seed, dropout), change / (1 - dropout), 0.0)
    z = tl.load(x + place, inside, 0.0).to(tl.float32) + change
    mean = tl.sum(tl.where(inside, z, 0.0), axis=1, keep_dims=True) / WIDTH
    centred = tl.where(inside, z - mean, 0.0)
    variance = tl.sum(centred * centred, axis=1, keep_dims=True) / WIDTH
    scale = 1 / tl.sqrt(variance + epsilon)
    unit = centred * scale
    if SAVED:
        tl.store(normalised + place, unit, inside)
        tl.store(inverse_deviation + row, scale, row < n_rows)
    gain = tl.load(weight + column, column < WIDTH, 0.0)
    tl.store(y + place, unit * gain + tl.load(bias + column, column < WIDTH, 0.0), inside)


@triton.jit
def _add_norm_backward(
    dy, normalised, inverse_deviation, weight, d_residual, d_sublayer, sums,
    seed, dropout, n_rows,
    HAS_BIAS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    column = tl.arange(0, BLOCK)[None, :]
    gain = tl.load(weight + column, column < WIDTH, 0.0)
    d_weight = tl.zeros((ROWS, BLOCK), tl.float32)
    d_bias = tl.zeros((ROWS, BLOCK), tl.float32)
    d_sublayer_bias = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in range(program * ROWS, n_rows, programs * ROWS):
        row = first + tl.arange(0, ROWS).to(tl.int64)[:, None]
        place = row * WIDTH + column
        inside = (row < n_rows) & (column < WIDTH)
        gradient = tl.load(dy + place, inside, 0.0).to(tl.float32)
        unit = tl.load(normalised + place, inside, 0.0).to(tl.float32)
        d_weight += gradient * unit
        d_bias += gradient
        gradient *= gain
        along = tl.sum(gradient * unit, axis=1, keep_dims=True) / WIDTH
        mean = tl.sum(gradient, axis=1, keep_dims=True) / WIDTH
        scale = tl.load(inverse_deviation + row, row < n_rows, 0.0)
        dz = tl.where(inside, (gradient - mean - unit * along) * scale, 0.0)
        tl.store(d_residual + place, dz, inside)
        d_change = tl.where(kept(place, seed, dropout), dz / (1 - dropout), 0.0)
        tl.store(d_sublayer + place, d_change, inside)
        d_sublayer_bias += d_change
    total = sums + program * (2 + HAS_BIAS) * WIDTH + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < WIDTH
    tl.store(total, tl.sum(d_weight, axis=0), inside)
    tl.store(total + WIDTH, tl.sum(d_bias, axis=0), inside)
    if HAS_BIAS:
        tl.store(total + 2 * WIDTH, tl.sum(d_sublayer_bias, axis=0), inside)


def _tile(width: int) -> dict[str, int]:
    block = triton.next_power_of_2(width)
    return {"WIDTH": width, "BLOCK": block, "ROWS": max(1, TILE // block), "num_warps": WARPS}


def add_norm(
    x: Tensor, sublayer: Tensor, sublayer_bias: Tensor | None, norm: Norm,
    seed: Tensor, dropout: float, saved: Normalised | None = None,
) -> Tensor:  # fmt: skip
    """Fills `saved` where there is a way back."""
    n, width = x.shape
    y, tile = torch.empty_like(x), _tile(width)
    _add_norm[(triton.cdiv(n, tile["ROWS"]),)](
        x, sublayer, x if sublayer_bias is None else sublayer_bias, norm.weight, norm.bias, y,
        *(saved or (y, y)), seed, dropout, norm.epsilon, n,
        HAS_BIAS=sublayer_bias is not None, SAVED=saved is not None, **tile,
    )  # fmt: skip
    return y


def add_norm_forward(
    x: Tensor, sublayer: Tensor, sublayer_bias: Tensor | None, norm: Norm,
    seed: Tensor, dropout: float,
) -> tuple[Tensor, Normalised]:  # fmt: skip
    """`add_norm`, and what `add_norm_backward` needs of it."""
    saved = Normalised(torch.empty_like(x), x.new_empty(len(x), dtype=torch.float32))
    return add_norm(x, sublayer, sublayer_bias, norm, seed, dropout, saved), saved


def add_norm_backward(
    dy: Tensor, saved: Normalised, norm: Norm, seed: Tensor, dropout: float,
    has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of x and of the sublayer's output (N, d_model), and parts whose sum over the
    first dimension is those of the norm's weight and bias, and of the sublayer's bias if it has
    one: (·, 2 or 3, d_model) in float32.
    """
    n, width = dy.shape
    tile = _tile(width)
    programs = min(PROGRAMS, triton.cdiv(n, tile["ROWS"]))
    d_x, d_sublayer = torch.empty_like(dy), torch.empty_like(dy)
    sums = dy.new_empty(programs, 2 + has_bias, width, dtype=torch.float32)
    _add_norm_backward[(programs,)](
        dy, *saved, norm.weight, d_x, d_sublayer, sums, seed, dropout, n,
        HAS_BIAS=has_bias, **tile,
    )  # fmt: skip
    return d_x, d_sublayer, sums
