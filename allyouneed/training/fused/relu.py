"""The way back through ReLU and the bias before it.

Shapes: N tokens, d_ff.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 16  # a tile
TILES = 32  # a program, one below the other
COLUMNS = 512


@triton.jit
def _relu_backward(
    gradient, activation, sums, n_rows, width,
    ROWS: tl.constexpr, TILES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(TILES):
        row = (program * TILES + tile) * ROWS + tl.arange(0, ROWS)[:, None]
        place = row * width + column
        inside = (row < n_rows) & (column < width)
        passed = tl.load(activation + place, inside, 0.0) > 0
        value = tl.where(passed, tl.load(gradient + place, inside, 0.0), 0.0)
        tl.store(gradient + place, value, inside)
        total += value.to(tl.float32)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(sums + program * width + column, tl.sum(total, axis=0), column < width)


def relu_backward_(gradient: Tensor, activation: Tensor) -> Tensor:
    """Where the activation (N, d_ff) is 0, so becomes its gradient.

    Returns parts whose sum over the first dimension is the bias' gradient: (·, 1, d_ff).
    """
    n, width = gradient.shape
    programs = triton.cdiv(n, ROWS * TILES)
    sums = gradient.new_empty(programs, width, dtype=torch.float32)
    _relu_backward[(programs, triton.cdiv(width, COLUMNS))](
        gradient, activation, sums, n, width,
        ROWS=ROWS, TILES=TILES, COLUMNS=COLUMNS, num_warps=4,
    )  # fmt: skip
    return sums.unsqueeze(1)
