"""Token budgets to batches (section 5.1): deterministic, resumable, nothing lost or doubled.

An epoch is planned from its number and the seed alone: its pairs are shuffled, then laid into
rows, pool by pool. A plan names pairs; `fill` turns it into ids.

All packed batches of a run have the same shape, batch_tokens // row_width rows of row_width, if no
pair is longer than that; longer ones add one shape for each doubling of the width. The last
batches of an epoch have the same shapes too, with rows of padding.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.config import TrainingConfig
from allyouneed.data.packing import Indices, Plan, pack, pad, row_widths, rows_in_batch, share_of
from allyouneed.data.ranges import ranges, starts_of
from allyouneed.rows import PADDING, Rows
from allyouneed.text.tokenizer import BEGIN, END, PAD

IGNORE = -100  # the label of padding: no loss
PLANNER = 3  # counts up when the same settings begin to give other batches
POOL_BATCHES = 64  # the pairs of about this many batches are arranged together


class Pairs(Protocol):
    """What batches are made of; `PreparedData` is one."""

    @property
    def lengths(self) -> NDArray[np.int32]:
        """(n, 2): source and target tokens of each pair, without marks."""

    @property
    def spans(self) -> Sequence[tuple[int, int, float, int]]:
        """First place, end, weight and segmentations of each corpus.

        A pair takes as many places in a row as there are segmentations.
        """

    def texts(self, indices: Indices) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
        """Source ids of these pairs, without marks, end to end, and their target ids."""


class Position(NamedTuple):
    """Where in the endless stream of batches a run stands: the next batch to come."""

    epoch: int = 0
    batch: int = 0


class Batch(NamedTuple):
    """Both sides of a batch; row r of one holds the translations of row r of the other.

    Where several ranks share a batch, the rows are those of one, the pairs and counts of all.
    """

    src: Rows
    tgt: Rows  # begins with BEGIN
    labels: Tensor  # (B, T): the token after each of tgt, at last END; IGNORE at padding
    pairs: list[int]
    n_src_tokens: int
    n_tgt_tokens: int

    def to(self, device: torch.device | str) -> "Batch":
        labels = self.labels.to(device, non_blocking=True)
        return self._replace(src=self.src.to(device), tgt=self.tgt.to(device), labels=labels)

    def room_on(self, device: torch.device | str) -> "Batch":
        """A batch of the same shape, to be overwritten by `copy_`."""
        src, tgt = (
            Rows(*(torch.empty_like(it, device=device) for it in side)) for side in self[:2]
        )
        return self._replace(src=src, tgt=tgt, labels=torch.empty_like(self.labels, device=device))

    def copy_(self, other: "Batch") -> None:
        """Overwrite the tensors with those of another batch of the same shape."""
        for mine, its in zip((*self.src, *self.tgt), (*other.src, *other.tgt), strict=True):
            mine.copy_(its, non_blocking=True)
        self.labels.copy_(other.labels, non_blocking=True)

    def pinned(self) -> "Batch":
        """In memory that a GPU copies from while everything else goes on."""
        src, tgt = (Rows(*(tensor.pin_memory() for tensor in side)) for side in self[:2])
        return self._replace(src=src, tgt=tgt, labels=self.labels.pin_memory())


class Batches:
    """Endless batches, epoch after epoch, from any position on."""

    def __init__(
        self, pairs: Pairs, config: TrainingConfig, rank: int = 0, n_ranks: int = 1
    ) -> None:
        self._pairs = pairs
        self._config = config
        self._rank, self._n_ranks = rank, n_ranks
        self._lengths = pairs.lengths + np.int32(1)  # each side carries one mark

    @property
    def settings(self) -> str:
        """What besides the pairs decides which batches there are: positions fit no others."""
        config = self._config
        batching = f"{config.batching} {config.batch_tokens} {config.row_width} {config.seed}"
        return f"{batching} planner {PLANNER}"

    def starting_at(self, position: Position) -> Iterator[tuple[Batch, Position]]:
        """Each batch with the position after it."""
        epoch, skip = position
        while True:
            for number, plan in enumerate(self.plan_epoch(epoch)):
                if number >= skip:
                    batch = fill(plan, self._pairs, self._rank, self._n_ranks)
                    yield batch, Position(epoch, number + 1)
            epoch, skip = epoch + 1, 0

    def plan_epoch(self, epoch: int) -> Iterator[Plan]:
        config, lengths = self._config, self._lengths
        rng = np.random.default_rng((config.seed, epoch))
        pairs = rng.permutation(epoch_pairs(self._pairs.spans, config.seed, epoch))
        tokens_before = lengths[pairs].max(axis=1).cumsum(dtype=np.int64)
        pool_numbers = tokens_before // (POOL_BATCHES * config.batch_tokens)
        pools = np.split(pairs, np.flatnonzero(np.diff(pool_numbers)) + 1)
        left_over = pairs[:0]
        for number, newcomers in enumerate(pools, start=1):
            pool, last = np.concatenate((left_over, newcomers)), number == len(pools)
            if config.batching == "packed":
                plans, left_over = pack(
                    pool, lengths, config.batch_tokens, config.row_width, rng, last
                )
            else:
                plans, left_over = pad(pool, lengths, config.batch_tokens, last)
            yield from (plans[chosen] for chosen in rng.permutation(len(plans)))

    def largest(self) -> Batch:
        """A batch that needs as much memory as any: full, in rows of the greatest width."""
        longest = int(self._lengths.max())
        if self._config.batching == "packed":
            n_rows, width = self.packed_shapes()[-1]
        else:
            n_rows, width = rows_in_batch(self._config.batch_tokens, longest), longest
        ids = torch.full((share_of(n_rows, self._n_ranks), width), END)
        position = torch.arange(width).clamp(max=longest - 1)  # learned ones may end there
        rows = Rows(ids, torch.zeros_like(ids), position.expand_as(ids).contiguous())
        return Batch(rows, rows, ids, [], ids.numel(), ids.numel())

    def packed_shapes(self) -> list[tuple[int, int]]:
        """Rows and width of all packed batches; only long pairs have others than the first.

        Each rank has its share of the rows.
        """
        config = self._config
        [widest] = row_widths(self._lengths.max(keepdims=True)[0], config.row_width)
        doublings = range(int(widest // config.row_width).bit_length())
        widths = [config.row_width * 2**doubling for doubling in doublings]
        return [(rows_in_batch(config.batch_tokens, width), width) for width in widths]


def epoch_pairs(spans: Sequence[tuple[int, int, float, int]], seed: int, epoch: int) -> Indices:
    """The places of the pairs that an epoch shows, each pair as often as its corpus weighs.

    Of a weight's fraction every epoch takes the next part of one fixed shuffle, so that over the
    epochs all pairs are seen equally often. Which segmentation of a pair is shown is drawn anew.
    """
    chosen = []
    for corpus, (start, stop, weight, ways) in enumerate(spans):
        whole, size = int(weight), (stop - start) // ways
        pairs = np.tile(np.arange(size), whole)
        if part := math.ceil((weight - whole) * size):
            order = np.random.default_rng((seed, corpus)).permutation(size)
            turn = (epoch * part + np.arange(part)) % size
            pairs = np.concatenate((pairs, order[turn]))
        way = np.random.default_rng((seed, corpus, epoch)).integers(ways, size=len(pairs))
        chosen.append(start + pairs * ways + way)
    return np.concatenate(chosen)


def fill(plan: Plan, pairs: Pairs, rank: int = 0, n_ranks: int = 1) -> Batch:
    """Look up the ids that a plan names, in the rows of one of several ranks."""
    members = plan.pairs.tolist()
    n_src_tokens, n_tgt_tokens = (pairs.lengths[plan.pairs] + 1).sum(axis=0).tolist()
    plan = plan.share(rank, n_ranks)
    src_text, tgt_text = pairs.texts(plan.pairs)
    src_sizes, tgt_sizes = pairs.lengths[plan.pairs].T + 1  # each side carries one mark
    src = _Cells(plan.rows, src_sizes, plan.n_rows, plan.src_width)
    tgt = _Cells(plan.rows, tgt_sizes, plan.n_rows, plan.tgt_width)
    to_read, to_say = src.text_then_end(src_text), tgt.text_then_end(tgt_text)
    said_before = np.roll(to_say, 1)
    said_before[tgt.begins] = BEGIN
    return Batch(
        src.rows_of(to_read),
        tgt.rows_of(said_before),
        tgt.laid_out(to_say, IGNORE),
        members,
        n_src_tokens,
        n_tgt_tokens,
    )


class _Cells:
    """Where in the rows of one side each token stands; tokens lie end to end elsewhere."""

    def __init__(self, rows: Indices, sizes: Indices, n_rows: int, width: int) -> None:
        self._shape = n_rows, width
        self.begins = starts_of(sizes)
        first_of_row = np.searchsorted(rows, rows)
        start_in_row = self.begins - self.begins[first_of_row]
        self._places = ranges(rows * width + start_in_row, sizes)
        self._sentence = np.repeat(np.arange(len(rows)) - first_of_row, sizes)
        self._position = ranges(np.zeros_like(sizes), sizes)

    def text_then_end(self, text: NDArray[np.integer[Any]]) -> Indices:
        """The tokens of the text with an END after each sentence."""
        tokens = np.full(len(self._places), END, dtype=np.int64)
        is_text = np.ones(len(tokens), dtype=np.bool_)
        is_text[self.begins - 1] = False  # that of the first sentence is the last of all
        tokens[is_text] = text
        return tokens

    def rows_of(self, tokens: Indices) -> Rows:
        return Rows(
            self.laid_out(tokens, PAD),
            self.laid_out(self._sentence, PADDING),
            self.laid_out(self._position, 0),
        )

    def laid_out(self, values: Indices, padding: int) -> Tensor:
        """(B, T)."""
        cells = np.full(self._shape, padding, dtype=np.int64)
        cells.reshape(-1)[self._places] = values
        return torch.from_numpy(cells)
