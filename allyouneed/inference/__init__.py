"""A model to translations, on ids."""

from typing import TYPE_CHECKING, Any

from allyouneed.inference.hypotheses import Hypothesis, penalty
from allyouneed.inference.limits import Limits
from allyouneed.inference.strategies import BeamSearch, Greedy, Sampling, Strategy

if TYPE_CHECKING:
    from allyouneed.inference.plain_search import search

__all__ = [
    "BeamSearch",
    "Greedy",
    "Hypothesis",
    "Limits",
    "Sampling",
    "Strategy",
    "penalty",
    "search",
]


def __getattr__(name: str) -> Any:
    """`search` loads torch, which takes a second and which the native engine does without."""
    if name == "search":
        from allyouneed.inference.plain_search import search

        return search
    raise AttributeError(f"module 'allyouneed.inference' has no attribute {name!r}")
