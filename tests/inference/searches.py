"""Searching by a fast engine, and comparing with what the plain search finds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from allyouneed.inference import BeamSearch, Greedy, Hypothesis, Limits
from allyouneed.inference.engine import Ids
from allyouneed.inference.fast_engine import FastEngine
from allyouneed.inference.fast_search import fast_search

LIMITS = Limits(max_extra_tokens=12)

if TYPE_CHECKING:  # which needs Triton
    from allyouneed.inference.gpu.engine import GpuEngine


def found_fast(
    engine: "FastEngine | GpuEngine",
    texts: Sequence[Ids],
    strategy: BeamSearch | Greedy,
    limits: Limits = LIMITS,
    n_best: int = 1,
    prefixes: Sequence[Ids] | None = None,
    batch_tokens: int = 60,  # so few that slots are refilled many times
) -> list[list[Hypothesis]]:
    prefixes = prefixes or [()] * len(texts)
    found = dict(fast_search(engine, texts, strategy, limits, n_best, prefixes, batch_tokens))
    return [found[place] for place in range(len(texts))]


def assert_same(
    fast: Sequence[list[Hypothesis]],
    plain: Sequence[list[Hypothesis]],
    log_probability: float = 1e-4,  # by which it may differ
) -> None:
    for ours, theirs in zip(fast, plain, strict=True):
        assert [it.ids for it in ours] == [it.ids for it in theirs]
        assert [it.finished for it in ours] == [it.finished for it in theirs]
        assert [it.score for it in ours] == pytest.approx([it.score for it in theirs], abs=1e-4)
        expected = [it.log_probability for it in theirs]
        found = [it.log_probability for it in ours]
        assert found == pytest.approx(expected, abs=log_probability)
