"""A model to translations, on ids."""

from allyouneed.inference.hypotheses import Hypothesis, penalty
from allyouneed.inference.limits import Limits
from allyouneed.inference.search import search
from allyouneed.inference.strategies import BeamSearch, Greedy, Sampling, Strategy

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
