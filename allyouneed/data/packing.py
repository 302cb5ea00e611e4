"""Which pairs share a row, and which rows a batch.

`lengths` counts tokens with marks, (n, 2) for source and target, indexed by pair. Both ways of
arranging take a pool of pairs and hand back what would have left a batch part empty, so that the
next pool can use it; the `last` pool of an epoch keeps nothing back.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Lengths = NDArray[np.int32]


class Plan(NamedTuple):
    """Which pairs stand in which row of a batch, and the batch's shape."""

    rows: list[list[int]]  # may be fewer than n_rows: the others are padding
    n_rows: int
    src_width: int
    tgt_width: int


def pack(
    pool: Indices,
    lengths: Lengths,
    batch_tokens: int,
    row_width: int,
    rng: np.random.Generator,
    last: bool,
) -> tuple[list[Plan], Indices]:
    """Rows of few fixed widths, each filled with whole sentences."""
    plans: list[Plan] = []
    left_over: list[int] = []
    longest_sides = lengths[pool].max(axis=1)
    waiting = pool[np.argsort(-longest_sides, kind="stable")]
    for width in np.unique(row_widths(longest_sides, row_width))[::-1].tolist():
        # Wide rows are made for long pairs only; short ones fill what room these leave.
        opens_rows_from = 1 if width == row_width else width // 2 + 1
        rows, waiting = _first_fit(waiting, lengths, width, opens_rows_from)
        n_rows = max(1, batch_tokens // width)
        n_full = len(rows) if last else len(rows) // n_rows * n_rows
        left_over += [pair for row in rows[n_full:] for pair in row]
        order = rng.permutation(n_full)
        for start in range(0, n_full, n_rows):
            chosen = [rows[number] for number in order[start : start + n_rows]]
            plans.append(Plan(chosen, n_rows, width, width))
    return plans, np.array(left_over, dtype=np.int64)


def row_widths(longest_side: NDArray[np.int32], row_width: int) -> NDArray[np.int64]:
    """`row_width`, doubled until the pair fits."""
    doublings = np.ceil(np.log2(np.maximum(longest_side / row_width, 1)))
    return row_width * 2 ** doublings.astype(np.int64)


def _first_fit(
    longest_first: Indices, lengths: Lengths, width: int, opens_rows_from: int
) -> tuple[list[list[int]], Indices]:
    """Each pair into the first row with room on both sides; those without one wait on.

    Pairs of at least `opens_rows_from` tokens open a new row instead. Fullest rows come first.
    """
    free = np.full((2, len(longest_first)), width, dtype=np.int32)
    rows: list[list[int]] = []
    waiting: list[int] = []
    for pair, (src, tgt) in zip(
        longest_first.tolist(), lengths[longest_first].tolist(), strict=True
    ):
        # One row more than are open, so that there always is one with room.
        room = (free[0, : len(rows) + 1] >= src) & (free[1, : len(rows) + 1] >= tgt)
        row = int(room.argmax())
        if row == len(rows):
            if max(src, tgt) < opens_rows_from:
                waiting.append(pair)
                continue
            rows.append([])
        rows[row].append(pair)
        free[0, row] -= src
        free[1, row] -= tgt
    fullest_first = np.argsort(free[:, : len(rows)].sum(axis=0), kind="stable")
    return [rows[row] for row in fullest_first], np.array(waiting, dtype=np.int64)


def pad(
    pool: Indices, lengths: Lengths, batch_tokens: int, last: bool
) -> tuple[list[Plan], Indices]:
    """One sentence a row, batches of similar lengths: as many as fit the budget padded."""
    ordered = pool[np.lexsort((lengths[pool, 1], lengths[pool, 0]))]
    plans: list[Plan] = []
    start, widths = 0, (0, 0)
    for stop, (src, tgt) in enumerate(lengths[ordered].tolist()):
        wider = max(widths[0], src), max(widths[1], tgt)
        if stop > start and (stop - start + 1) * max(wider) > batch_tokens:
            plans.append(_padded_plan(ordered[start:stop], *widths))
            start, wider = stop, (src, tgt)
        widths = wider
    if last and start < len(ordered):
        plans.append(_padded_plan(ordered[start:], *widths))
        start = len(ordered)
    return plans, ordered[start:]


def _padded_plan(pairs: Indices, src_width: int, tgt_width: int) -> Plan:
    return Plan([[pair] for pair in pairs.tolist()], len(pairs), src_width, tgt_width)
