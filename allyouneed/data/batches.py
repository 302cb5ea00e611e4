"""Token budgets to batches (section 5.1): deterministic, resumable, nothing lost or doubled.

An epoch is planned from its number and the seed alone: its pairs are shuffled, then laid into
rows, pool by pool. A plan names pairs; `fill` turns it into ids.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.config import TrainingConfig
from allyouneed.data.packing import Indices, Plan, pack, pad, row_widths
from allyouneed.rows import PADDING, Rows
from allyouneed.text.tokenizer import BEGIN, END, PAD

IGNORE = -100  # the label of padding: no loss
POOL_BATCHES = 16  # the pairs of about this many batches are arranged together


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

    def pair(self, index: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]: ...


class Position(NamedTuple):
    """Where in the endless stream of batches a run stands: the next batch to come."""

    epoch: int = 0
    batch: int = 0


class Batch(NamedTuple):
    """Both sides of a batch; row r of one holds the translations of row r of the other."""

    src: Rows
    tgt: Rows  # begins with BEGIN
    labels: Tensor  # (B, T): the token after each of tgt, at last END; IGNORE at padding
    pairs: list[int]
    n_src_tokens: int
    n_tgt_tokens: int

    def to(self, device: torch.device | str) -> "Batch":
        labels = self.labels.to(device, non_blocking=True)
        return self._replace(src=self.src.to(device), tgt=self.tgt.to(device), labels=labels)

    def copy_(self, other: "Batch") -> None:
        """Overwrite the tensors with those of another batch of the same shape."""
        for mine, its in zip((*self.src, *self.tgt), (*other.src, *other.tgt), strict=True):
            mine.copy_(its, non_blocking=True)
        self.labels.copy_(other.labels, non_blocking=True)


class Batches:
    """Endless batches, epoch after epoch, from any position on."""

    def __init__(self, pairs: Pairs, config: TrainingConfig) -> None:
        self._pairs = pairs
        self._config = config
        self._lengths = pairs.lengths + np.int32(1)  # each side carries one mark

    @property
    def settings(self) -> str:
        """What besides the pairs decides which batches there are: positions fit no others."""
        config = self._config
        return f"{config.batching} {config.batch_tokens} {config.row_width} {config.seed}"

    def starting_at(self, position: Position) -> Iterator[tuple[Batch, Position]]:
        """Each batch with the position after it."""
        epoch, skip = position
        while True:
            for number, plan in enumerate(self.plan_epoch(epoch)):
                if number >= skip:
                    yield fill(plan, self._pairs), Position(epoch, number + 1)
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
        longest = self._lengths.max(keepdims=True)[0]
        packed = self._config.batching == "packed"
        width = int(row_widths(longest, self._config.row_width)[0] if packed else longest[0])
        ids = torch.full((max(1, self._config.batch_tokens // width), width), END)
        rows = Rows(ids, torch.zeros_like(ids), torch.arange(width).expand_as(ids).contiguous())
        return Batch(rows, rows, ids, [], ids.numel(), ids.numel())


def epoch_pairs(spans: Sequence[tuple[int, int, float, int]], seed: int, epoch: int) -> Indices:
    """The places of the pairs that an epoch shows, each pair as often as its corpus weighs.

    Of a weight's fraction every epoch takes the next part of one fixed shuffle, so that over the
    epochs all pairs are seen equally often. Which segmentation of a pair is shown is drawn anew.
    """
    chosen = []
    for corpus, (start, stop, weight, ways) in enumerate(spans):
        whole, size = int(weight), (stop - start) // ways
        part = math.ceil((weight - whole) * size)
        order = np.random.default_rng((seed, corpus)).permutation(size)
        turn = (epoch * part + np.arange(part)) % max(size, 1)
        pairs = np.concatenate((np.tile(np.arange(size), whole), order[turn]))
        way = np.random.default_rng((seed, corpus, epoch)).integers(ways, size=len(pairs))
        chosen.append(start + pairs * ways + way)
    return np.concatenate(chosen)


def fill(plan: Plan, pairs: Pairs) -> Batch:
    """Look up the ids that a plan names."""
    src = _Side(plan.n_rows, plan.src_width)
    tgt = _Side(plan.n_rows, plan.tgt_width)
    labels = np.full((plan.n_rows, plan.tgt_width), IGNORE, dtype=np.int64)
    for row, members in enumerate(plan.rows):
        src_start = tgt_start = 0
        for number, index in enumerate(members):
            src_ids, tgt_ids = pairs.pair(index)
            src_stop, tgt_stop = src_start + len(src_ids), tgt_start + len(tgt_ids)
            src.ids[row, src_start:src_stop] = src_ids
            src.ids[row, src_stop] = END
            tgt.ids[row, tgt_start] = BEGIN
            tgt.ids[row, tgt_start + 1 : tgt_stop + 1] = tgt_ids
            labels[row, tgt_start:tgt_stop] = tgt_ids
            labels[row, tgt_stop] = END
            src_start = src.mark(row, src_start, src_stop + 1, number)
            tgt_start = tgt.mark(row, tgt_start, tgt_stop + 1, number)
    members = [index for row in plan.rows for index in row]
    return Batch(
        src.rows(), tgt.rows(), torch.from_numpy(labels), members, src.n_tokens, tgt.n_tokens
    )


class _Side:
    """Arrays of `Rows` being filled."""

    def __init__(self, n_rows: int, width: int) -> None:
        self.ids = np.full((n_rows, width), PAD, dtype=np.int64)
        self._sentence = np.full((n_rows, width), PADDING, dtype=np.int64)
        self._position = np.zeros((n_rows, width), dtype=np.int64)
        self._count = np.arange(width)
        self.n_tokens = 0

    def mark(self, row: int, start: int, stop: int, sentence: int) -> int:
        """Tokens from start to stop are a sentence; the next one begins at stop."""
        self._sentence[row, start:stop] = sentence
        self._position[row, start:stop] = self._count[: stop - start]
        self.n_tokens += stop - start
        return stop

    def rows(self) -> Rows:
        return Rows(*map(torch.from_numpy, (self.ids, self._sentence, self._position)))
