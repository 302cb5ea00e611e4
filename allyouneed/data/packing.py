"""Which pairs share a row, and which rows a batch.

`lengths` counts tokens with marks, (n, 2) for source and target, indexed by pair. Both ways of
arranging take a pool of pairs and hand back those that would have left a batch part empty, so that
the next pool can use them; the `last` pool of an epoch keeps nothing back.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Lengths = NDArray[np.int32]

GROUP_ROWS = 128  # rows that a pair may choose from; fewer are quicker, more are filled better


class Plan(NamedTuple):
    """Which pairs stand in which row of a batch, and the batch's shape."""

    pairs: Indices  # those of the first row, then those of the second, …
    rows: Indices  # the row of each pair; rows that are not named are padding
    n_rows: int
    src_width: int
    tgt_width: int

    def share(self, rank: int, n_ranks: int) -> "Plan":
        """Every so many-th row: one rank's part, of the same shape for all of them."""
        members = self.rows % n_ranks == rank
        return self._replace(
            pairs=self.pairs[members],
            rows=self.rows[members] // n_ranks,
            n_rows=share_of(self.n_rows, n_ranks),
        )


def share_of(n_rows: int, n_ranks: int) -> int:
    """The rows that each rank takes; some may be padding."""
    return -(-n_rows // n_ranks)


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
    waiting: list[Indices] = []
    needed_widths = row_widths(lengths[pool].max(axis=1), row_width)
    short = pool[needed_widths == row_width]
    # Wide rows are made for long pairs only, one in each; short ones fill what room these leave.
    for width in np.unique(needed_widths[needed_widths > row_width]).tolist():
        n_rows = rows_in_batch(batch_tokens, width)
        long = pool[needed_widths == width]
        n_batches = -(-len(long) // n_rows) if last else len(long) // n_rows
        opening, too_few = np.split(long, [n_batches * n_rows])
        # Rows are offered as many tokens as they have room for, on the side that has more.
        offer = lengths[opening].sum(axis=0) + lengths[short].cumsum(axis=0)
        n_filling = np.searchsorted(offer.max(axis=1), n_batches * n_rows * width)
        offered = np.concatenate((opening, short[:n_filling]))
        made, unplaced = _fill_batches(offered, lengths, n_batches, n_rows, width, rng)
        plans += made
        waiting.append(too_few)
        short = np.concatenate((unplaced, short[n_filling:]))
    n_rows = rows_in_batch(batch_tokens, row_width)
    while True:
        n_batches = int(lengths[short].sum(axis=0).max() // (n_rows * row_width))
        n_batches = max(n_batches, int(last))
        made, short = _fill_batches(short, lengths, n_batches, n_rows, row_width, rng)
        plans += made
        if not (last and len(short)):
            return plans, np.concatenate((*waiting, short))


def row_widths(longest_side: NDArray[np.int32], row_width: int) -> NDArray[np.int64]:
    """`row_width`, doubled until the pair fits."""
    doublings = np.ceil(np.log2(np.maximum(longest_side / row_width, 1)))
    return row_width * 2 ** doublings.astype(np.int64)


def rows_in_batch(batch_tokens: int, width: int) -> int:
    """The shape of a packed batch follows from its width alone."""
    return max(1, batch_tokens // width)


def _fill_batches(
    pairs: Indices,
    lengths: Lengths,
    n_batches: int,
    n_rows: int,
    width: int,
    rng: np.random.Generator,
) -> tuple[list[Plan], Indices]:
    """Batches of rows in random order, and the pairs that found no room in them."""
    longest_first = pairs[np.argsort(-lengths[pairs].max(axis=1), kind="stable")]
    rows = _fill_rows(lengths[longest_first], n_batches * n_rows, width)
    found_room = rows >= 0
    placed, rows = longest_first[found_room], rows[found_room]
    rows = rng.permutation(n_batches * n_rows)[rows]
    by_row = np.argsort(rows, kind="stable")
    placed, rows = placed[by_row], rows[by_row]
    batch_ends = np.searchsorted(rows, n_rows * np.arange(1, n_batches))
    plans = [
        Plan(members, member_rows % n_rows, n_rows, width, width)
        for members, member_rows in zip(
            np.split(placed, batch_ends), np.split(rows, batch_ends), strict=True
        )
        if len(members)
    ]
    return plans, longest_first[~found_room]


def _fill_rows(longest_first: Lengths, n_rows: int, width: int) -> Indices:
    """The row of each pair, the first with room for it; −1 where there is none.

    Rows and pairs are dealt out to groups, like cards, so that all groups are much the same. In a
    group one pair chooses after the other; the groups do so at the same time, as arrays.
    """
    chosen = np.full(len(longest_first), -1, dtype=np.int64)
    if n_rows == 0:
        return chosen
    n_groups = -(-n_rows // GROUP_ROWS)
    numbers = np.arange(-(-n_rows // n_groups) * n_groups).reshape(-1, n_groups).T
    src_free = np.where(numbers < n_rows, width, -1).astype(np.int32)  # (groups, rows of a group)
    tgt_free = src_free.copy()
    all_groups = np.arange(n_groups)
    for start in range(0, len(longest_first), n_groups):
        src, tgt = longest_first[start : start + n_groups].T
        n_choosing = len(src)  # the last ones may be fewer than there are groups
        has_room = (src_free[:n_choosing] >= src[:, None]) & (tgt_free[:n_choosing] >= tgt[:, None])
        rows = has_room.argmax(axis=1)
        groups = np.flatnonzero(has_room[all_groups[:n_choosing], rows])
        rows = rows[groups]
        src_free[groups, rows] -= src[groups]
        tgt_free[groups, rows] -= tgt[groups]
        chosen[start + groups] = numbers[groups, rows]
    return chosen


def pad(
    pool: Indices, lengths: Lengths, batch_tokens: int, last: bool
) -> tuple[list[Plan], Indices]:
    """One sentence a row, batches of similar lengths: as many as fit the budget padded."""
    ordered = pool[np.lexsort((lengths[pool, 0], lengths[pool].max(axis=1)))]
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
    return Plan(pairs, np.arange(len(pairs)), len(pairs), src_width, tgt_width)
