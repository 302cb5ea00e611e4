"""Beam search over an engine, in a batch that refills itself.

What has been translated leaves its slot, and the next sentence takes it, so that the batch stays
full. The rules are those of `search`, which is the plain twin: what has ended keeps its place in
the beam, and a sentence is done when nothing that is live can come before the best that have ended.

Shapes: S slots, K beams a slot, T tokens, A slots in use.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.inference.engine import ROW, Candidates, Engine, Ids
from allyouneed.inference.hypotheses import Hypothesis, penalty
from allyouneed.inference.limits import Limits
from allyouneed.text.tokenizer import BEGIN, END

_REFILL_AT = 8  # refill once an eighth of the slots is free: encoding few sentences costs as many
_NONE = -1  # no token is forced


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
    n_best: int


def search_refilling(
    engine: Engine,
    tasks: Sequence[Task],
    beam: Beam,
    min_length: int,
    n_slots: int,
    done: Callable[[int], None] = lambda task: None,
) -> list[list[Hypothesis]]:
    """The `n_best` translations of each task, the best first; `done` hears of each that is."""
    found: list[list[Hypothesis]] = [[] for _ in tasks]
    waiting = deque(enumerate(tasks))
    slots = _Slots(engine, tasks, beam, min_length, min(n_slots, len(tasks)))
    while waiting or slots.in_use.any():
        if waiting and slots.should_be_filled():
            slots.fill(waiting)
        for number, hypotheses in slots.step():
            found[number] = hypotheses
            done(number)
    return found


class _Slots:
    """The sentences that are being translated."""

    def __init__(
        self, engine: Engine, tasks: Sequence[Task], beam: Beam, min_length: int, n_slots: int
    ) -> None:
        size, longest = beam.size, max(task.longest for task in tasks)
        self._engine, self._beam, self._min_length = engine, beam, min_length
        engine.reserve(n_slots, size, 1 + max(len(task.source) for task in tasks), longest)
        n_forced = 1 + max(len(task.prefix) for task in tasks)
        self.in_use = np.zeros(n_slots, dtype=bool)
        self._number = np.zeros(n_slots, dtype=np.int64)  # of the task
        self._longest = np.zeros(n_slots, dtype=np.int64)
        self._forced = np.full((n_slots, n_forced), _NONE, dtype=np.int32)
        self._n_tokens = np.zeros(n_slots, dtype=np.int64)  # so far, without the begin mark
        self._log_prob = np.zeros((n_slots, size), dtype=np.float32)  # -∞: ended or empty
        self._tokens = np.zeros((n_slots, longest + 1, size), dtype=np.int32)  # where taken in
        self._origins = np.zeros((n_slots, size, longest), dtype=np.int32)
        self._ended: list[list[Hypothesis]] = [[] for _ in range(n_slots)]
        self._to_beat = np.zeros(n_slots, dtype=np.float64)  # score of the n-th best that ended

    def should_be_filled(self) -> bool:
        n_free = np.count_nonzero(~self.in_use)
        return n_free * _REFILL_AT >= len(self.in_use)

    def fill(self, waiting: deque[tuple[int, Task]]) -> None:
        """Let the first of those that wait into the free slots."""
        free = np.flatnonzero(~self.in_use)[: len(waiting)].tolist()
        sources = []
        for slot in free:
            number, task = waiting.popleft()
            sources.append(task.source)
            self.in_use[slot] = True
            self._number[slot], self._longest[slot] = number, task.longest
            self._forced[slot] = _NONE
            self._forced[slot, : len(task.prefix)] = task.prefix
            self._n_tokens[slot] = 0
            self._log_prob[slot] = -np.inf
            self._log_prob[slot, 0] = 0
            self._tokens[slot, 0] = BEGIN
            self._ended[slot] = []
            self._to_beat[slot] = -np.inf
        self._engine.encode(sources, free)

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
        return [self._finish(slot) for slot in slots[is_cut | (self._to_beat[slots] >= best_to_come)]]

    def _rows(self, slots: NDArray[np.int64], live: NDArray[np.bool_]) -> NDArray[Any]:
        place, beam = np.nonzero(live)
        slot = slots[place]
        position = self._n_tokens[slot]
        rows = np.empty(len(slot), dtype=ROW)
        rows["slot"], rows["beam"], rows["position"] = slot, beam, position
        rows["token"] = self._tokens[slot, position, beam]
        rows["forced"] = self._forced[slot, np.minimum(position, self._forced.shape[1] - 1)]
        rows["may_end"] = position >= self._min_length
        return rows

    def _extend(
        self, slots: NDArray[np.int64], live: NDArray[np.bool_], candidates: Candidates
    ) -> None:
        """The best of each beam's candidates, as many as are not ended yet, become the beam."""
        size = self._beam.size
        totals = np.full((*live.shape, size), -np.inf, dtype=np.float32)  # (A, K, C)
        totals[live] = self._log_prob[slots][live][:, None] + candidates.log_probs
        ids = np.zeros(totals.shape, dtype=np.int32)
        ids[live] = candidates.ids
        totals, ids = totals.reshape(len(slots), -1), ids.reshape(len(slots), -1)
        picks = np.argsort(-totals, axis=1, kind="stable")[:, :size]
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
            self._hypothesis(slot, beam, finished=False) for beam in cut
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
