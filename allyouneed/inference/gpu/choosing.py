"""From logits to the next beams, without sorting a vocabulary.

First the best few of every chunk of columns and its sum of exponentials, then, for each slot, the
best of all of them.

Shapes: A slots, K beams a slot, R = A·K rows, V columns of the logits, C chunks of them.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from allyouneed.inference.gpu.room import Room
from allyouneed.kernels.attention import NEVER
from allyouneed.text.tokenizer import BEGIN, END, PAD

COLUMNS = 2048  # a chunk
NOTHING = tl.constexpr(-(2**63))  # the key of no token
LOWEST_31_BITS = tl.constexpr(0x7FFFFFFF)


class BestOfChunks(NamedTuple):
    keys: Tensor  # (R, C, K), int64: the best first; see `_key`
    highest: Tensor  # (R, C): logits
    exponentials: Tensor  # (R, C): the sum of e^(logit − highest)


@triton.jit
def _key(logit, column):
    """One whole number to compare tokens by: a higher logit is more, then an earlier column."""
    bits = logit.to(tl.int32, bitcast=True)
    in_order = tl.where(bits < 0, bits ^ LOWEST_31_BITS, bits).to(tl.int64)
    return (in_order << 32) | (column ^ LOWEST_31_BITS).to(tl.int64)


@triton.jit
def _logit_and_column(key):
    in_order = (key >> 32).to(tl.int32)
    bits = tl.where(in_order < 0, in_order ^ LOWEST_31_BITS, in_order)
    column = (key & LOWEST_31_BITS).to(tl.int32) ^ LOWEST_31_BITS
    return bits.to(tl.float32, bitcast=True), column


@triton.jit
def _best_of_chunks(
    logits, slots, positions, forced, min_length, keys, highest, exponentials, room,
    BEAMS: tl.constexpr, VOCABULARY: tl.constexpr, STRIDE: tl.constexpr, COLUMNS: tl.constexpr,
    PAD: tl.constexpr, BEGIN: tl.constexpr, END: tl.constexpr,
):  # fmt: skip
    """One chunk of one row. Loads are masked by the stride, a round number, to be wide."""
    row, chunk, chunks = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    column = chunk * COLUMNS + tl.arange(0, COLUMNS)
    logit = tl.load(logits + row.to(tl.int64) * STRIDE + column, column < STRIDE, 0.0)
    logit = tl.where(column < VOCABULARY, logit.to(tl.float32), NEVER)
    top = tl.max(logit)
    at = row * chunks + chunk
    tl.store(highest + at, top)
    tl.store(exponentials + at, tl.sum(tl.exp(logit - top)))

    slot = tl.load(slots + row // BEAMS).to(tl.int64)
    position = tl.load(positions + slot)
    only = tl.load(forced + slot * room + position)
    may_come = (column < VOCABULARY) & (column != PAD) & (column != BEGIN)
    may_come = may_come & ((column != END) | (position >= tl.load(min_length)))
    may_come = may_come & ((only < 0) | (column == only))
    key = tl.where(may_come, _key(logit, column), NOTHING)
    for rank in tl.static_range(BEAMS):
        best = tl.max(key)
        tl.store(keys + at * BEAMS + rank, best)
        key = tl.where(key == best, NOTHING, key)


@triton.jit
def _extend(
    keys, highest, exponentials, slots, positions, log_probs, last, n_ended, origins, answer, room,
    BEAMS: tl.constexpr, CHUNKS: tl.constexpr, BLOCK_BEAMS: tl.constexpr,
    BLOCK_CHUNKS: tl.constexpr, BLOCK_KEYS: tl.constexpr, BLOCK: tl.constexpr, END: tl.constexpr,
):  # fmt: skip
    """One slot: its new beam, and everything that the next step reads."""
    place = tl.program_id(0)
    slot = tl.load(slots + place).to(tl.int64)
    beam = tl.arange(0, BLOCK_BEAMS)
    is_beam = beam < BEAMS
    row = place * BEAMS + beam

    chunk = tl.arange(0, BLOCK_CHUNKS)[None, :]
    at = row[:, None] * CHUNKS + chunk
    exists = is_beam[:, None] & (chunk < CHUNKS)
    tops = tl.load(highest + at, exists, NEVER)
    top = tl.max(tops, axis=1)
    parts = tl.load(exponentials + at, exists, 0.0) * tl.exp(tops - top[:, None])
    normaliser = top + tl.log(tl.sum(parts, axis=1) + tl.where(is_beam, 0.0, 1.0))

    candidate = tl.arange(0, BLOCK_KEYS)[None, :]
    exists = is_beam[:, None] & (candidate < CHUNKS * BEAMS)
    key = tl.load(keys + row[:, None] * (CHUNKS * BEAMS) + candidate, exists, NOTHING)
    logit, column = _logit_and_column(key)
    log_prob = tl.load(log_probs + slot * BEAMS + beam, is_beam, -float("inf"))
    may_come = (key != NOTHING) & (log_prob[:, None] > -float("inf"))
    totals = log_prob[:, None] + (logit - normaliser[:, None])
    totals = tl.where(may_come, totals, -float("inf"))
    number = beam[:, None] * BLOCK_KEYS + candidate

    ids = tl.zeros((BLOCK_BEAMS,), tl.int32)
    parents = tl.zeros((BLOCK_BEAMS,), tl.int32)
    best_totals = tl.full((BLOCK_BEAMS,), -float("inf"), tl.float32)
    ended_before = tl.load(n_ended + slot)
    for rank in range(BEAMS - ended_before):
        best = tl.max(totals)
        pick = tl.min(tl.where(totals == best, number, BLOCK_BEAMS * BLOCK_KEYS))
        id_ = tl.sum(tl.where((number == pick) & may_come, column, 0))
        ids = tl.where(beam == rank, id_, ids)
        parents = tl.where(beam == rank, pick // BLOCK_KEYS, parents)
        best_totals = tl.where(beam == rank, best, best_totals)
        totals = tl.where(number == pick, -float("inf"), totals)

    answer_at = answer + place * (3 * BEAMS) + beam
    tl.store(answer_at, ids, is_beam)
    tl.store(answer_at + BEAMS, parents, is_beam)
    tl.store(answer_at + 2 * BEAMS, best_totals.to(tl.int32, bitcast=True), is_beam)

    position = tl.load(positions + slot)
    for start in range(0, position + 1, BLOCK):
        token = start + tl.arange(0, BLOCK)[None, :]
        so_far = is_beam[:, None] & (token <= position)
        old = tl.load(origins + (slot * BEAMS + parents[:, None]) * room + token, so_far, 0)
        origin = tl.where(token == position, parents[:, None], old)
        tl.debug_barrier()  # everything is read before any of it is written, here and below
        tl.store(origins + (slot * BEAMS + beam[:, None]) * room + token, origin, so_far)
    ended = (ids == END) & (best_totals > -float("inf"))
    tl.store(log_probs + slot * BEAMS + beam, tl.where(ended, -float("inf"), best_totals), is_beam)
    tl.store(last + slot * BEAMS + beam, ids, is_beam)
    tl.store(n_ended + slot, ended_before + tl.sum(ended.to(tl.int32)))
    # A step more than there is room for is one that nobody will take the picks of.
    tl.store(positions + slot, tl.minimum(position + 1, room - 1))


def best_of_chunks(logits: Tensor, room: Room, slots: Tensor, vocabulary: int) -> BestOfChunks:
    """logits (R, V), of which so many columns are tokens; the rows are those of slots (A,)."""
    n_rows, stride = logits.shape
    n_chunks, beams = triton.cdiv(stride, COLUMNS), room.size.n_beams
    best = BestOfChunks(
        logits.new_empty(n_rows, n_chunks, beams, dtype=torch.int64),
        *logits.new_empty(2, n_rows, n_chunks, dtype=torch.float32),
    )
    _best_of_chunks[(n_rows, n_chunks)](
        logits, slots, room.position, room.forced, room.min_length, *best, room.size.target,
        BEAMS=beams, VOCABULARY=vocabulary, STRIDE=stride, COLUMNS=COLUMNS,
        PAD=PAD, BEGIN=BEGIN, END=END, num_warps=4,
    )  # fmt: skip
    return best


def extend(best: BestOfChunks, room: Room, slots: Tensor) -> Tensor:
    """Move the beams of these slots (A,) on: (A, 3, K), int32.

    In it the new tokens, their parents and, as bits, the log-probabilities of the hypotheses.
    """
    beams, n_chunks = room.size.n_beams, best.highest.size(1)
    answer = torch.empty(len(slots), 3, beams, dtype=torch.int32, device=slots.device)
    _extend[(len(slots),)](
        *best, slots, room.position, room.log_prob, room.last, room.n_ended, room.origins, answer,
        room.size.target,
        BEAMS=beams, CHUNKS=n_chunks, BLOCK_BEAMS=triton.next_power_of_2(beams),
        BLOCK_CHUNKS=triton.next_power_of_2(n_chunks),
        BLOCK_KEYS=triton.next_power_of_2(n_chunks * beams), BLOCK=64, END=END, num_warps=4,
    )  # fmt: skip
    return answer
