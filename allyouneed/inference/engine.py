"""What `HostBeams` ask of an engine: sentences in slots, hypotheses in the beams of a slot.

Slots have a fixed size, and a step names rows of them by number, so that an engine may keep its
memory, and a graph captured over it, for as long as it likes.

Shapes: R rows, one for each live hypothesis, C candidates a row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ids = Sequence[int]

# One row of a step. `token` stands at `position` of the target, from 0 for the begin mark; `forced`
# is the only token that may come next, or -1; the end mark may come where `may_end` is 1.
ROW = np.dtype(
    [(name, np.int32) for name in ("slot", "beam", "position", "token", "forced", "may_end")]
)


class Candidates(NamedTuple):
    """The most probable next tokens of every row, the best first."""

    ids: NDArray[np.int32]  # (R, C)
    log_probs: NDArray[np.float32]  # (R, C); -∞ where there are fewer


class Engine(Protocol):
    """A model that encodes sentences into slots and continues their hypotheses."""

    def reserve(self, n_slots: int, n_beams: int, longest_source: int, longest_target: int) -> None:
        """Make room, and forget what was in the slots; lengths include the end mark."""

    def encode(self, sources: Sequence[Ids], slots: Sequence[int]) -> None:
        """Put sentences, without marks, into these slots."""

    def offer(self, slot: int, choices: NDArray[np.int32]) -> None:
        """Let a slot choose among these pieces and the shortlist's `always`.

        Only asked of an engine that has one, for every sentence that it encodes.
        """

    def step(self, rows: NDArray[Any], origins: NDArray[np.int32], n_best: int) -> Candidates:
        """What may follow each of the rows, an array of ROW.

        `origins` (n_slots, n_beams, longest_target) is the beam in which a hypothesis' token at a
        position was taken in: keys and values stay where they are when hypotheses change places.
        """
