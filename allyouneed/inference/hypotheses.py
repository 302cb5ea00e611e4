"""Finished translations, and how they compare."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # torch takes a second to load, and the native engine does without
    from numpy.typing import NDArray
    from torch import Tensor

Length = TypeVar("Length", float, "Tensor", "NDArray[Any]")


def penalty(length: Length, alpha: float) -> Length:
    """((5 + |Y|) / 6)^α, by which log P is divided (section 6.1); |Y| counts the end mark."""
    return ((5 + length) / 6) ** alpha


@dataclass(frozen=True)
class Hypothesis:
    """One translation in ids, without begin and end marks."""

    ids: tuple[int, ...]
    score: float  # log P over the length penalty
    log_probability: float
    finished: bool = True  # False: the longest length came before the end mark

    @property
    def length(self) -> int:
        """|Y|: the end mark counts where there is one."""
        return len(self.ids) + self.finished
