"""Ways to search, as small objects; `choosing` is what they do at every step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from allyouneed.errors import ConfigError

if TYPE_CHECKING:  # torch takes a second to load, and the native engine does without
    from allyouneed.inference.choosing import Choose


class Strategy(Protocol):
    """How to search; `search` does the rest."""

    @property
    def length_penalty(self) -> float: ...

    def first_slots(self, n_best: int) -> list[float]:
        """The K slots of a sentence: 0 for one that lives from the start, -∞ for an empty one."""

    def begin(self, sources: Sequence[Sequence[int]]) -> "Choose":
        """Make ready to choose for these sentences."""


@dataclass(frozen=True)
class BeamSearch:
    """Section 6.1: keep the `size` best; what has ended keeps its place among them."""

    size: int = 4
    length_penalty: float = 0.6

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"a beam of {self.size} holds nothing; 1 or more works")
        _check_length_penalty(self.length_penalty)

    def first_slots(self, n_best: int) -> list[float]:
        if n_best > self.size:
            raise ConfigError(
                f"a beam of {self.size} cannot give the {n_best} best; make it {n_best} or more"
            )
        return [0.0] + [-math.inf] * (self.size - 1)

    def begin(self, _sources: Sequence[Sequence[int]]) -> "Choose":
        from allyouneed.inference.choosing import best_of_sentence

        return best_of_sentence


@dataclass(frozen=True)
class Greedy:
    """Always the most probable token."""

    length_penalty: float = 0.6  # of the score only

    def __post_init__(self) -> None:
        _check_length_penalty(self.length_penalty)

    def first_slots(self, n_best: int) -> list[float]:
        if n_best > 1:
            raise ConfigError(f"greedy search finds 1 translation, not {n_best}; use a beam")
        return [0.0]

    def begin(self, _sources: Sequence[Sequence[int]]) -> "Choose":
        from allyouneed.inference.choosing import best_of_slot

        return best_of_slot


@dataclass(frozen=True)
class Sampling:
    """Draw each token: from the `top_k` most probable, or the fewest whose mass is `top_p`.

    With a seed, a sentence's samples depend on nothing but the sentence and the seed.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    length_penalty: float = 0.6  # of the score only

    def __post_init__(self) -> None:
        _check_length_penalty(self.length_penalty)
        if not 0 < self.temperature < math.inf:
            raise ConfigError(f"temperature is {self.temperature}; it must be more than 0")
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k is {self.top_k}; it must be 1 or more")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}; it must be more than 0, at most 1")

    def first_slots(self, n_best: int) -> list[float]:
        return [0.0] * n_best

    def begin(self, sources: Sequence[Sequence[int]]) -> "Choose":
        from allyouneed.inference.choosing import Draw

        return Draw(self, sources)


def _check_length_penalty(alpha: float) -> None:
    if not 0 <= alpha < math.inf:
        raise ConfigError(f"length_penalty is {alpha}; it must be 0 or more")
