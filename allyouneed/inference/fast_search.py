"""Beam search over an engine, in a batch that refills itself.

What has been translated leaves its slot, and the next sentence takes it, so that the batch stays
full. The rules are those of `search`, which is the plain twin: what has ended keeps its place in
the beam, and a sentence is done when nothing that is live can come before the best that have ended.

Shapes: S slots, K beams a slot, T tokens, A slots in use.
"""

import math
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.inference.engine import ROW, Candidates, Engine, Ids
from allyouneed.inference.fast_engine import FastEngine
from allyouneed.inference.hypotheses import Hypothesis, penalty
from allyouneed.inference.limits import Limits
from allyouneed.inference.strategies import BeamSearch, Greedy
from allyouneed.text.tokenizer import BEGIN, END

_NONE = -1  # no token is forced
_MOST_ROWS = 128  # hypotheses at once: products are near their best, and caches still small
_PAPERS_BEAM = 4  # for which a translator's `batch_tokens` are meant


@dataclass(frozen=True)
class Task:
    """A sentence to translate; ids without marks."""

    source: Ids
    prefix: Ids  # what the translation must begin with
    longest: int  # tokens of the translation, with the end mark


@dataclass(frozen=True)
class Beam:
    """How wide to search, and how to compare lengths."""

    size: int
    length_penalty: float
    n_best: int = 1
    min_length: int = 0  # tokens before the end mark


def fast_search(
    engine: FastEngine,
    sources: Sequence[Ids],
    strategy: BeamSearch | Greedy,
    limits: Limits,
    n_best: int,
    prefixes: Sequence[Ids],
    batch_tokens: int,
) -> Generator[tuple[int, list[Hypothesis]]]:
    """The place of each source and its `n_best` translations, the best first, once found.

    They are those that `search` finds, as far as rounding allows. Until this comes to its end or
    is closed, nobody else can use the engine.
    """
    beam = Beam(
        len(strategy.first_slots(n_best)), strategy.length_penalty, n_best, limits.min_length
    )
    most = engine.config.max_length or math.inf
    tasks = [
        Task(source, prefix, int(min(most, max(limits.longest(len(source)), len(prefix) + 1))))
        for source, prefix in zip(sources, prefixes, strict=True)
    ]
    order = sorted(range(len(tasks)), key=lambda place: len(sources[place]), reverse=True)
    n_slots = max(1, _MOST_ROWS // beam.size)
    n_tokens = batch_tokens * _PAPERS_BEAM // beam.size
    with engine.lock:
        found = refilling(engine, [tasks[place] for place in order], beam, n_slots, n_tokens)
        for number, hypotheses in found:
            yield order[number], hypotheses


def refilling(
    engine: Engine, tasks: Sequence[Task], beam: Beam, n_slots: int, n_tokens: float = math.inf
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """The place of each task and its translations, in the order in which they are found.

    At most `n_tokens` source tokens are in the slots at once, unless it is a single sentence.
    """
    if not tasks:
        return
    waiting = deque(enumerate(tasks))
    slots = _Slots(engine, tasks, beam, min(n_slots, len(tasks)), n_tokens)
    while waiting or slots.in_use.any():
        slots.fill(waiting)
        yield from slots.step()


class _Slots:
    """The sentences that are being translated."""

    def __init__(
        self, engine: Engine, tasks: Sequence[Task], beam: Beam, n_slots: int, n_tokens: float
    ) -> None:
        size, longest = beam.size, max(task.longest for task in tasks)
        self._engine, self._beam, self._most = engine, beam, n_tokens
        engine.reserve(n_slots, size, 1 + max(len(task.source) for task in tasks), longest)
        n_forced = 1 + max(len(task.prefix) for task in tasks)
        self.in_use = np.zeros(n_slots, dtype=bool)
        self._number = np.zeros(n_slots, dtype=np.int64)  # of the task
        self._n_source = np.zeros(n_slots, dtype=np.int64)  # tokens
        self._longest = np.zeros(n_slots, dtype=np.int64)
        self._forced = np.full((n_slots, n_forced), _NONE, dtype=np.int32)
        self._n_tokens = np.zeros(n_slots, dtype=np.int64)  # so far, without the begin mark
        self._log_prob = np.zeros((n_slots, size), dtype=np.float32)  # -∞: ended or empty
        self._tokens = np.zeros((n_slots, longest + 1, size), dtype=np.int32)  # where taken in
        self._origins = np.zeros((n_slots, size, longest), dtype=np.int32)
        self._ended: list[list[Hypothesis]] = [[] for _ in range(n_slots)]
        self._to_beat = np.zeros(n_slots, dtype=np.float64)  # score of the n-th best that ended

    def fill(self, waiting: deque[tuple[int, Task]]) -> None:
        """Let the first of those that wait into free slots, as long as there is room."""
        into: dict[int, Ids] = {}
        for slot in np.flatnonzero(~self.in_use).tolist():
            n_in_use = int(self._n_source[self.in_use].sum())
            if not waiting or (n_in_use and n_in_use + len(waiting[0][1].source) > self._most):
                break
            number, task = waiting.popleft()
            into[slot] = task.source
            self.in_use[slot] = True
            self._n_source[slot] = len(task.source)
            self._number[slot], self._longest[slot] = number, task.longest
            self._forced[slot] = _NONE
            self._forced[slot, : len(task.prefix)] = task.prefix
            self._n_tokens[slot] = 0
            self._log_prob[slot] = -np.inf
            self._log_prob[slot, 0] = 0
            self._tokens[slot, 0] = BEGIN
            self._ended[slot] = []
            self._to_beat[slot] = -np.inf
        if into:
            self._engine.encode(list(into.values()), list(into))

    def step(self) -> list[tuple[int, list[Hypothesis]]]:
        """One more token of every hypothesis; gives back the tasks that this has done."""
        slots = np.flatnonzero(self.in_use)
        live = self._log_prob[slots] > -np.inf  # (A, K)
        rows = self._rows(slots, live)
        self._origins[rows["slot"], rows["beam"], rows["position"]] = rows["beam"]
        self._extend(slots, live, self._engine.step(rows, self._origins, self._beam.size))
        self._take_out_ended(slots)
        best_to_come = self._log_prob[slots].max(1) / penalty(
            self._longest[slots], self._beam.length_penalty
        )
        is_cut = self._n_tokens[slots] >= self._longest[slots]
        return [
            self._finish(slot) for slot in slots[is_cut | (self._to_beat[slots] >= best_to_come)]
        ]

    def _rows(self, slots: NDArray[np.int64], live: NDArray[np.bool_]) -> NDArray[Any]:
        place, beam = np.nonzero(live)
        slot = slots[place]
        position = self._n_tokens[slot]
        rows = np.empty(len(slot), dtype=ROW)
        rows["slot"], rows["beam"], rows["position"] = slot, beam, position
        rows["token"] = self._tokens[slot, position, beam]
        rows["forced"] = self._forced[slot, np.minimum(position, self._forced.shape[1] - 1)]
        rows["may_end"] = position >= self._beam.min_length
        return rows

    def _extend(
        self, slots: NDArray[np.int64], live: NDArray[np.bool_], candidates: Candidates
    ) -> None:
        """The best of each beam's candidates, as many as are not ended yet, become the beam."""
        size = self._beam.size
        totals = np.full((len(slots), size * size), -np.inf, dtype=np.float32)
        totals.reshape(*live.shape, size)[live] = (
            self._log_prob[slots][live][:, None] + candidates.log_probs
        )
        ids = np.zeros(totals.shape, dtype=np.int32)
        ids.reshape(*live.shape, size)[live] = candidates.ids
        picks = np.argsort(-totals, axis=1, kind="stable")[:, :size]  # (A, K), into K·K
        n_ended = np.array([len(self._ended[slot]) for slot in slots])
        log_prob = np.take_along_axis(totals, picks, axis=1)
        log_prob[np.arange(size) >= size - n_ended[:, None]] = -np.inf
        self._log_prob[slots] = log_prob
        self._n_tokens[slots] += 1
        self._tokens[slots, self._n_tokens[slots]] = np.take_along_axis(ids, picks, axis=1)
        if size > 1:
            parents = (picks // size)[:, :, None]
            self._origins[slots] = np.take_along_axis(self._origins[slots], parents, axis=1)

    def _take_out_ended(self, slots: NDArray[np.int64]) -> None:
        last = self._tokens[slots, self._n_tokens[slots]]
        for place, beam in np.argwhere((last == END) & (self._log_prob[slots] > -np.inf)):
            slot = slots[place]
            ended = self._ended[slot]
            ended.append(self._hypothesis(slot, beam, finished=True))
            self._log_prob[slot, beam] = -np.inf
            if len(ended) >= self._beam.n_best:
                scores = sorted(hypothesis.score for hypothesis in ended)
                self._to_beat[slot] = scores[-self._beam.n_best]

    def _finish(self, slot: int) -> tuple[int, list[Hypothesis]]:
        """Free a slot, and give the number of its task and the best that it came to."""
        cut = np.flatnonzero(self._log_prob[slot] > -np.inf)
        hypotheses = self._ended[slot] + [
            self._hypothesis(slot, int(beam), finished=False) for beam in cut
        ]
        hypotheses.sort(key=lambda it: (it.finished, it.score), reverse=True)
        self.in_use[slot] = False
        return int(self._number[slot]), hypotheses[: self._beam.n_best]

    def _hypothesis(self, slot: int, beam: int, *, finished: bool) -> Hypothesis:
        length = int(self._n_tokens[slot])
        earlier = np.arange(1, length)
        ids = self._tokens[slot, earlier, self._origins[slot, beam, 1:length]].tolist()
        if not finished:
            ids.append(int(self._tokens[slot, length, beam]))
        log_probability = float(self._log_prob[slot, beam])
        score = log_probability / penalty(float(length), self._beam.length_penalty)
        return Hypothesis(tuple(ids), score, log_probability, finished)
