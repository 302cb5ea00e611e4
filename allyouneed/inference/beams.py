"""What a search asks: beams that are begun for a sentence and then advance token by token.

A slot holds the beam of one sentence. Whoever has the beams extends them, so that on a GPU no step
waits for what the host makes of the one before.

Shapes: A slots that advance, K hypotheses a beam.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from allyouneed.inference.engine import Ids

NONE = -1  # no token is forced


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


class Picks(NamedTuple):
    """Beams after a step, the best hypothesis first.

    One that the end mark ends is there this once; from then on the beam is one smaller.
    """

    ids: NDArray[np.int32]  # (A, K): the last tokens
    parents: NDArray[
        np.int32
    ]  # (A, K): the places in the beam before, whose continuations they are
    log_probs: NDArray[np.float32]  # (A, K): of all tokens; -∞ where there is no hypothesis


class Beams(Protocol):
    """The beams of many slots."""

    ahead: int  # how many steps should be asked for before the first one's picks are taken
    refill_share: float  # of the slots, that should be free before others are begun in them

    def most_slots(self, n_beams: int, longest_source: int, longest_target: int) -> int:
        """How many are worth having; lengths include the end mark."""

    def reserve(self, n_slots: int, beam: Beam, tasks: Sequence[Task]) -> None:
        """Make room for any `n_slots` of these tasks at once, and forget what was there."""

    def begin(self, tasks: Sequence[Task], slots: Sequence[int]) -> None:
        """Let these sentences into these slots."""

    def advance(self, slots: NDArray[np.int64]) -> Callable[[], Picks]:
        """Begin a step of these slots; what comes back waits for its end."""


def longest_of(tasks: Sequence[Task]) -> tuple[int, int]:
    """Of sources and of targets, with the end mark."""
    return 1 + max(len(task.source) for task in tasks), max(task.longest for task in tasks)
