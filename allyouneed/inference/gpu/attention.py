"""Equation 1 for the newest token of every hypothesis.

Shapes: A slots, K beams a slot, R = A·K rows; the others are those of `room`.
"""

import triton
import triton.language as tl
from torch import Tensor

from allyouneed.inference.gpu.room import Room
from allyouneed.kernels.attention import LOG2_E, NEVER, Heads

OWN_KEYS = 32  # taken at once
MEMORY_KEYS = 32


@triton.jit
def _attend_to_own(
    qkv, keys, values, origins, slots, positions, log_probs, found, room, scale,
    BEAMS: tl.constexpr, HEADS: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One head of one row: keep the new key and value, attend to them and to all before."""
    head, row = tl.program_id(0), tl.program_id(1)
    slot = tl.load(slots + row // BEAMS).to(tl.int64)
    hypothesis = slot * BEAMS + row % BEAMS
    position = tl.load(positions + slot)
    d_k, d_v = tl.arange(0, D_K), tl.arange(0, D_V)
    new = qkv + row.to(tl.int64) * HEADS * (2 * D_K + D_V) + head * D_K
    query = tl.load(new + d_k).to(tl.float32) * (scale * LOG2_E)
    key = tl.load(new + HEADS * D_K + d_k)
    value = tl.load(new + 2 * HEADS * D_K + head * (D_V - D_K) + d_v)
    new_place = hypothesis * room + position
    tl.store(keys + new_place * (HEADS * D_K) + head * D_K + d_k, key)
    tl.store(values + new_place * (HEADS * D_V) + head * D_V + d_v, value)
    # The new one is taken from the registers: no other program can have asked for it.
    highest = tl.sum(query * key.to(tl.float32))
    total = 1.0
    mixed = value.to(tl.float32)
    is_live = tl.load(log_probs + hypothesis) > -float("inf")
    for start in range(0, tl.where(is_live, position, 0), BLOCK):
        earlier = start + tl.arange(0, BLOCK)
        exists = earlier < position
        origin = tl.load(origins + hypothesis * room + earlier, exists, 0)
        place = (slot * BEAMS + origin) * room + earlier
        keys_at = keys + place[:, None] * (HEADS * D_K) + head * D_K + d_k[None, :]
        values_at = values + place[:, None] * (HEADS * D_V) + head * D_V + d_v[None, :]
        old_keys = tl.load(keys_at, exists[:, None], 0.0).to(tl.float32)
        old_values = tl.load(values_at, exists[:, None], 0.0).to(tl.float32)
        scores = tl.where(exists, tl.sum(old_keys * query[None, :], axis=1), NEVER)
        higher = tl.maximum(highest, tl.max(scores))
        weights = tl.exp2(scores - higher)
        fading = tl.exp2(highest - higher)
        total = total * fading + tl.sum(weights)
        mixed = mixed * fading + tl.sum(old_values * weights[:, None], axis=0)
        highest = higher
    tl.store(found + (row.to(tl.int64) * HEADS + head) * D_V + d_v, mixed / total)


@triton.jit
def _attend_to_memory(
    q, keys, values, n_source, slots, found, room, stride, scale,
    BEAMS: tl.constexpr, HEADS: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    BLOCK_BEAMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One head of one slot: its beams read the same keys and values."""
    head, place = tl.program_id(0), tl.program_id(1)
    slot = tl.load(slots + place).to(tl.int64)
    length = tl.load(n_source + slot)
    beam = tl.arange(0, BLOCK_BEAMS)[:, None]
    d_k, d_v = tl.arange(0, D_K)[None, :], tl.arange(0, D_V)[None, :]
    row = place.to(tl.int64) * BEAMS + beam
    queries = tl.load(q + (row * HEADS + head) * D_K + d_k, beam < BEAMS, 0.0)
    highest = tl.full((BLOCK_BEAMS,), NEVER, tl.float32)
    total = tl.zeros((BLOCK_BEAMS,), tl.float32)
    mixed = tl.zeros((BLOCK_BEAMS, D_V), tl.float32)
    for start in range(0, length, BLOCK):
        token = start + tl.arange(0, BLOCK)
        first = (slot * room + token[:, None]) * stride
        exists = token[:, None] < length
        some_keys = tl.load(keys + first + head * D_K + d_k, exists, 0.0)
        some_values = tl.load(values + first + head * D_V + d_v, exists, 0.0)
        scores = tl.dot(queries, tl.trans(some_keys), input_precision="ieee") * (scale * LOG2_E)
        scores = tl.where(token[None, :] < length, scores, NEVER)
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        fading = tl.exp2(highest - higher)
        total = total * fading + tl.sum(weights, axis=1)
        mixed *= fading[:, None]
        mixed += tl.dot(weights.to(some_values.dtype), some_values, input_precision="ieee")
        highest = higher
    tl.store(found + (row * HEADS + head) * D_V + d_v, mixed / total[:, None], beam < BEAMS)


def attend_to_own(qkv: Tensor, room: Room, slots: Tensor, layer: int, heads: Heads) -> Tensor:
    """qkv (R, H·(2·d_k + d_v)) of the rows of these slots (A,) -> (R, H·d_v)."""
    found = qkv.new_empty(len(qkv), heads.number * heads.d_v)
    _attend_to_own[(heads.number, len(qkv))](
        qkv, room.keys[layer], room.values[layer], room.origins, slots, room.position,
        room.log_prob, found, room.size.target, heads.d_k**-0.5,
        BEAMS=room.size.n_beams, HEADS=heads.number, D_K=heads.d_k, D_V=heads.d_v,
        BLOCK=OWN_KEYS, num_warps=2,
    )  # fmt: skip
    return found


def attend_to_memory(q: Tensor, room: Room, slots: Tensor, layer: int, heads: Heads) -> Tensor:
    """q (R, H·d_k) of the rows of these slots (A,) -> (R, H·d_v)."""
    found = q.new_empty(len(q), heads.number * heads.d_v)
    first = layer * heads.number * (heads.d_k + heads.d_v)
    keys, values = room.memory[..., first:], room.memory[..., first + heads.number * heads.d_k :]
    _attend_to_memory[(heads.number, len(slots))](
        q, keys, values, room.n_source, slots, found, room.size.source, room.memory.stride(1),
        heads.d_k**-0.5,
        BEAMS=room.size.n_beams, HEADS=heads.number, D_K=heads.d_k, D_V=heads.d_v,
        BLOCK_BEAMS=max(16, triton.next_power_of_2(room.size.n_beams)), BLOCK=MEMORY_KEYS,
        num_warps=2,
    )  # fmt: skip
    return found
