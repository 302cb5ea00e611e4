"""The newest tokens of all beams: embedding · sqrt(d_model) + position.

Shapes: A slots, K beams a slot, R = A·K rows, d_model.
"""

import triton
import triton.language as tl
from torch import Tensor

from allyouneed.inference.gpu.room import Room


@triton.jit
def _embed_last(
    slots, last, positions, embedding, position_table, x, scale,
    BEAMS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    slot = tl.load(slots + row // BEAMS)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    token = tl.load(last + slot * BEAMS + row % BEAMS).to(tl.int64)
    vector = tl.load(embedding + token * WIDTH + column, inside).to(tl.float32)
    position = tl.load(position_table + tl.load(positions + slot) * WIDTH + column, inside)
    tl.store(x + row.to(tl.int64) * WIDTH + column, vector * scale + position, inside)


def embed_last(room: Room, slots: Tensor, embedding: Tensor, position_table: Tensor) -> Tensor:
    """Of these slots (A,), (R, d_model); position_table has a row for every position, float32."""
    n_rows, width = len(slots) * room.size.n_beams, embedding.size(1)
    x = embedding.new_empty(n_rows, width)
    _embed_last[(n_rows,)](
        slots, room.last, room.position, embedding, position_table, x, width**0.5,
        BEAMS=room.size.n_beams, WIDTH=width, BLOCK=triton.next_power_of_2(width), num_warps=2,
    )  # fmt: skip
    return x
