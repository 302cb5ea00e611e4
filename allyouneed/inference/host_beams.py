"""Beams over an engine that gives candidates, extended here in NumPy.

Shapes: S slots, K beams a slot, T tokens, A slots that advance.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.inference.beams import NONE, Beam, Picks, Task, longest_of
from allyouneed.inference.engine import ROW, Candidates, Engine
from allyouneed.shortlist import Shortlist
from allyouneed.text.tokenizer import BEGIN, END

_MOST_ROWS = 128  # hypotheses at once: products are near their best, and caches still small


class HostBeams:
    """`Beams` for an engine on the CPU."""

    ahead = 0
    refill_share = 0.0

    def __init__(self, engine: Engine, shortlist: Shortlist | None = None) -> None:
        self._engine = engine
        self._shortlist = shortlist

    def most_slots(self, n_beams: int, longest_source: int, longest_target: int) -> int:
        return max(1, _MOST_ROWS // n_beams)

    def reserve(self, n_slots: int, beam: Beam, tasks: Sequence[Task]) -> None:
        longest_source, longest = longest_of(tasks)
        self._beam = beam
        self._engine.reserve(n_slots, beam.size, longest_source, longest)
        n_forced = 1 + max(len(task.prefix) for task in tasks)
        self._forced = np.full((n_slots, n_forced), NONE, dtype=np.int32)
        self._position = np.zeros(n_slots, dtype=np.int64)
        self._last = np.zeros((n_slots, beam.size), dtype=np.int32)  # token
        self._log_prob = np.zeros((n_slots, beam.size), dtype=np.float32)  # -∞: ended or empty
        self._n_ended = np.zeros(n_slots, dtype=np.int64)
        self._origins = np.zeros((n_slots, beam.size, longest), dtype=np.int32)

    def begin(self, tasks: Sequence[Task], slots: Sequence[int]) -> None:
        for slot, task in zip(slots, tasks, strict=True):
            self._forced[slot] = NONE
            self._forced[slot, : len(task.prefix)] = task.prefix
            self._position[slot] = self._n_ended[slot] = 0
            self._last[slot] = BEGIN
            self._log_prob[slot] = -np.inf
            self._log_prob[slot, 0] = 0
            if self._shortlist is not None:
                self._engine.offer(slot, self._shortlist.choices(task.source, task.prefix))
        self._engine.encode([task.source for task in tasks], slots)

    def advance(self, slots: NDArray[np.int64]) -> Callable[[], Picks]:
        live = self._log_prob[slots] > -np.inf  # (A, K)
        rows = self._rows(slots, live)
        self._origins[rows["slot"], rows["beam"], rows["position"]] = rows["beam"]
        candidates = self._engine.step(rows, self._origins, self._beam.size)
        picks = self._picked(slots, live, candidates)
        self._follow(slots, picks)
        return lambda: picks

    def _rows(self, slots: NDArray[np.int64], live: NDArray[np.bool_]) -> NDArray[Any]:
        place, beam = np.nonzero(live)
        slot = slots[place]
        position = self._position[slot]
        rows = np.empty(len(slot), dtype=ROW)
        rows["slot"], rows["beam"], rows["position"] = slot, beam, position
        rows["token"] = self._last[slot, beam]
        rows["forced"] = self._forced[slot, np.minimum(position, self._forced.shape[1] - 1)]
        rows["may_end"] = position >= self._beam.min_length
        return rows

    def _picked(
        self, slots: NDArray[np.int64], live: NDArray[np.bool_], candidates: Candidates
    ) -> Picks:
        """The best of each beam's candidates, as many as are not ended yet."""
        size = self._beam.size
        totals = np.full((len(slots), size * size), -np.inf, dtype=np.float32)
        totals.reshape(*live.shape, size)[live] = (
            self._log_prob[slots][live][:, None] + candidates.log_probs
        )
        ids = np.zeros(totals.shape, dtype=np.int32)
        ids.reshape(*live.shape, size)[live] = candidates.ids
        picked = np.argsort(-totals, axis=1, kind="stable")[:, :size]  # (A, K), into K·K
        log_probs = np.take_along_axis(totals, picked, axis=1)
        log_probs[np.arange(size) >= size - self._n_ended[slots][:, None]] = -np.inf
        parents = (picked // size).astype(np.int32)
        return Picks(np.take_along_axis(ids, picked, axis=1), parents, log_probs)

    def _follow(self, slots: NDArray[np.int64], picks: Picks) -> None:
        ended = (picks.ids == END) & (picks.log_probs > -np.inf)
        self._log_prob[slots] = np.where(ended, -np.inf, picks.log_probs)
        self._n_ended[slots] += ended.sum(1)
        self._last[slots] = picks.ids
        self._position[slots] += 1
        if self._beam.size > 1:
            parents = picks.parents[:, :, None]
            self._origins[slots] = np.take_along_axis(self._origins[slots], parents, axis=1)
