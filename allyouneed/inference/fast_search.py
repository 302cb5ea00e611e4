"""Beam search over the beams of an engine, in a batch that refills itself.

What has been translated leaves its slot, and the next sentence takes it, so that the batch stays
full. The rules are those of `search`, which is the plain twin: what has ended keeps its place in
the beam, and a sentence is done when nothing that is live can come before the best that have ended.

Shapes: S slots, K beams a slot, T tokens, A slots in use.
"""

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.inference.beams import Beam, Beams, Picks, Task, longest_of
from allyouneed.inference.engine import Ids
from allyouneed.inference.hypotheses import Hypothesis, penalty
from allyouneed.inference.limits import Limits
from allyouneed.inference.strategies import BeamSearch, Greedy
from allyouneed.text.tokenizer import END

if TYPE_CHECKING:  # of which the second needs torch and Triton
    from allyouneed.inference.fast_engine import FastEngine
    from allyouneed.inference.gpu.engine import GpuEngine

_PAPERS_BEAM = 4  # for which a translator's `batch_tokens` are meant

Places = NDArray[np.int64]
Found = tuple[int, list[Hypothesis]]  # the place of a task, and its translations, the best first


def fast_search(
    engine: "FastEngine | GpuEngine",
    sources: Sequence[Ids],
    strategy: BeamSearch | Greedy,
    limits: Limits,
    n_best: int,
    prefixes: Sequence[Ids],
    batch_tokens: int,
) -> Generator[Found]:
    """The `n_best` translations of each source, once found.

    They are those that `search` finds, as far as rounding allows. Until this comes to its end or
    is closed, nobody else can use the engine.
    """
    if not sources:
        return
    beam = Beam(
        len(strategy.first_slots(n_best)), strategy.length_penalty, n_best, limits.min_length
    )
    most = engine.config.max_length or math.inf
    tasks = []
    for source, prefix in zip(sources, prefixes, strict=True):
        longest = int(min(most, max(limits.longest(len(source)), len(prefix) + 1)))
        tasks.append(Task(source, prefix[:longest], longest))
    order = sorted(range(len(tasks)), key=lambda place: len(sources[place]), reverse=True)
    n_tokens = batch_tokens * _PAPERS_BEAM // beam.size
    with engine.lock:
        n_slots = engine.beams.most_slots(beam.size, *longest_of(tasks))
        found = refilling(engine.beams, [tasks[place] for place in order], beam, n_slots, n_tokens)
        for number, hypotheses in found:
            yield order[number], hypotheses


def refilling(
    beams: Beams, tasks: Sequence[Task], beam: Beam, n_slots: int, n_tokens: float = math.inf
) -> Iterator[Found]:
    """Translations in the order in which they are found.

    At most `n_tokens` source tokens are in the slots at once, unless it is a single sentence.
    """
    if not tasks:
        return
    waiting = deque(enumerate(tasks))
    slots = _Slots(beams, tasks, beam, min(n_slots, len(tasks)), n_tokens)
    steps: deque[_Step] = deque()
    while waiting or slots.in_use.any():
        slots.fill(waiting)
        steps.append(slots.advance())
        if len(steps) > beams.ahead:
            yield from slots.take(steps.popleft())


class _Step(NamedTuple):
    """One that has begun."""

    slots: Places  # (A,)
    numbers: Places  # (A,): of the tasks that were in them
    picks: Callable[[], Picks]


class _Slots:
    """The sentences that are being translated, and what their beams have come to."""

    def __init__(
        self, beams: Beams, tasks: Sequence[Task], beam: Beam, n_slots: int, n_tokens: float
    ) -> None:
        self._beams, self._beam, self._most = beams, beam, n_tokens
        beams.reserve(n_slots, beam, tasks)
        self._few = beams.refill_share * n_slots  # free slots, to be left so for a while
        self.in_use = np.zeros(n_slots, dtype=bool)
        self._number = np.zeros(n_slots, dtype=np.int64)  # of the task
        self._n_source = np.zeros(n_slots, dtype=np.int64)  # tokens
        self._longest = np.zeros(n_slots, dtype=np.int64)
        self._n_tokens = np.zeros(n_slots, dtype=np.int64)  # so far, without the begin mark
        _, longest = longest_of(tasks)
        self._ids = np.zeros((longest + 1, n_slots, beam.size), dtype=np.int32)
        self._parents = np.zeros_like(self._ids)
        self._ended = _Hypotheses.none(n_slots, beam.size)

    def fill(self, waiting: deque[tuple[int, Task]]) -> None:
        """Let the first of those that wait into free slots, as long as there is room."""
        free = np.flatnonzero(~self.in_use).tolist()
        if len(free) < min(self._few, len(waiting)) and self.in_use.any():
            return
        n_tokens = int(self._n_source[self.in_use].sum())
        into: dict[int, Task] = {}
        for slot in free:
            if not waiting or (n_tokens and n_tokens + len(waiting[0][1].source) > self._most):
                break
            number, task = waiting.popleft()
            into[slot] = task
            self._number[slot], self._longest[slot] = number, task.longest
            self._n_source[slot] = len(task.source)
            n_tokens += len(task.source)
        if into:
            slots = list(into)
            self.in_use[slots] = True
            self._n_tokens[slots] = 0
            self._ended.clear(slots)
            self._beams.begin(list(into.values()), slots)

    def advance(self) -> _Step:
        slots = np.flatnonzero(self.in_use)
        return _Step(slots, self._number[slots], self._beams.advance(slots))

    def take(self, step: _Step) -> list[Found]:
        """What a step has made of the beams; gives back the tasks that this has done."""
        picks = step.picks()
        # Those that were found to be done while the step was under way have left.
        current = self.in_use[step.slots] & (self._number[step.slots] == step.numbers)
        slots = step.slots[current]
        ids, parents, log_probs = (part[current] for part in picks)
        self._n_tokens[slots] += 1
        n_tokens = self._n_tokens[slots]
        self._ids[n_tokens, slots] = ids
        self._parents[n_tokens, slots] = parents
        ended = (ids == END) & (log_probs > -np.inf)
        alpha = self._beam.length_penalty
        if ended.any():
            ends = np.where(ended, log_probs, -np.inf)
            self._ended.add(slots, _Hypotheses.of_beams(ends, n_tokens, alpha))
        live = np.where(ended, -np.inf, log_probs)
        best_to_come = live.max(1) / penalty(self._longest[slots], alpha)
        is_settled = self._ended.nth_best(slots, self._beam.n_best) >= best_to_come
        done = is_settled | (n_tokens >= self._longest[slots])
        if not done.any():
            return []
        return self._finished(slots[done], _Hypotheses.of_beams(live[done], n_tokens[done], alpha))

    def _finished(self, slots: Places, cut: "_Hypotheses") -> list[Found]:
        """Free the slots; the best that each came to, those that have not ended last."""
        self.in_use[slots] = False
        ended = self._ended.of(slots)
        score, log_prob, n_tokens, beam = (
            np.concatenate(parts, axis=1) for parts in zip(ended, cut, strict=True)
        )
        is_cut = np.arange(2 * self._beam.size) >= self._beam.size
        is_there = log_prob > -np.inf
        order = np.lexsort((-score, np.broadcast_to(is_cut, score.shape), ~is_there), axis=-1)
        order = order[:, : self._beam.n_best]
        place, rank = np.nonzero(np.take_along_axis(is_there, order, axis=1))
        best = place, order[place, rank]
        texts = self._texts(slots[place], n_tokens[best], beam[best])
        found: list[Found] = [(int(number), []) for number in self._number[slots]]
        numbers = (part.tolist() for part in (place, ~is_cut[best[1]], score[best], log_prob[best]))
        for ids, number, finished, its_score, its_log_prob in zip(texts, *numbers, strict=True):
            text = tuple(ids[:-1] if finished else ids)
            found[number][1].append(Hypothesis(text, its_score, its_log_prob, finished))
        return found

    def _texts(self, slot: Places, n_tokens: Places, beam: Places) -> list[list[int]]:
        """All tokens of the hypotheses that had so many, in these beams of these slots."""
        ids = np.zeros((len(slot), int(n_tokens.max(initial=0)) + 1), dtype=np.int32)
        for position in range(ids.shape[1] - 1, 0, -1):
            ids[:, position] = self._ids[position, slot, beam]
            parent = self._parents[position, slot, beam]
            beam = np.where(position <= n_tokens, parent, beam)
        return [row[1 : n + 1] for row, n in zip(ids.tolist(), n_tokens.tolist(), strict=True)]


class _Hypotheses(NamedTuple):
    """Up to K of every slot; where there is none, score and log_prob are -∞."""

    score: NDArray[Any]  # float64
    log_prob: NDArray[Any]  # float32
    n_tokens: NDArray[Any]
    beam: NDArray[Any]  # place in the beam when it had so many tokens

    @classmethod
    def none(cls, n_slots: int, size: int) -> "_Hypotheses":
        nothing = np.full((n_slots, size), -np.inf)
        numbers = np.zeros((n_slots, size), dtype=np.int64)
        return cls(nothing, nothing.astype(np.float32), numbers, numbers.copy())

    @classmethod
    def of_beams(
        cls, log_probs: NDArray[np.float32], n_tokens: Places, alpha: float
    ) -> "_Hypotheses":
        score = log_probs / penalty(n_tokens.astype(np.float64), alpha)[:, None]
        beam = np.broadcast_to(np.arange(log_probs.shape[1]), log_probs.shape)
        return cls(score, log_probs, np.broadcast_to(n_tokens[:, None], log_probs.shape), beam)

    def of(self, slots: Places) -> "_Hypotheses":
        return _Hypotheses(*(part[slots] for part in self))

    def clear(self, slots: Sequence[int]) -> None:
        self.score[slots] = self.log_prob[slots] = -np.inf

    def add(self, slots: Places, others: "_Hypotheses") -> None:
        """Those that there are go to free places, of which there are enough."""
        is_new = others.log_prob > -np.inf
        place, beam = np.nonzero(is_new)
        n_before = (self.log_prob[slots] > -np.inf).sum(1)
        to = n_before[place] + (is_new.cumsum(1) - 1)[place, beam]
        for mine, theirs in zip(self, others, strict=True):
            mine[slots[place], to] = theirs[place, beam]

    def nth_best(self, slots: Places, n: int) -> NDArray[np.float64]:
        """The score of the n-th best of every slot."""
        return np.sort(self.score[slots], axis=1)[:, -n]
