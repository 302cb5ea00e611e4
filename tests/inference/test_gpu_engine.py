"""The engine for GPUs finds what the plain twin finds; here mostly in Triton's interpreter."""

from collections.abc import Sequence

import pytest
import torch
from native_models import random_model, sources

pytest.importorskip("triton", reason="Triton is not made for this system")

from allyouneed.config import ModelConfig
from allyouneed.inference import BeamSearch, Greedy, Hypothesis, Limits, search
from allyouneed.inference.engine import Ids
from allyouneed.inference.fast_search import fast_search
from allyouneed.inference.gpu.engine import GpuEngine
from allyouneed.model import Transformer

# Small, as an interpreter runs the kernels one program after the other.
CONFIG = ModelConfig(
    vocab_size=101, n_layers=1, n_decoder_layers=2, d_model=32, d_ff=48, n_heads=2, d_k=16, d_v=32
)
LIMITS = Limits(max_extra_tokens=3)
TEXTS = sources(6, longest=6)


def found_fast(
    engine: GpuEngine,
    texts: Sequence[Ids],
    strategy: BeamSearch | Greedy,
    limits: Limits = LIMITS,
    n_best: int = 1,
    prefixes: Sequence[Ids] | None = None,
    batch_tokens: int = 10,  # so few that slots are refilled
) -> list[list[Hypothesis]]:
    prefixes = prefixes or [()] * len(texts)
    found = dict(fast_search(engine, texts, strategy, limits, n_best, prefixes, batch_tokens))
    return [found[place] for place in range(len(texts))]


def assert_same(fast: list[list[Hypothesis]], plain: list[list[Hypothesis]]) -> None:
    for ours, theirs in zip(fast, plain, strict=True):
        assert [it.ids for it in ours] == [it.ids for it in theirs]
        assert [it.finished for it in ours] == [it.finished for it in theirs]
        assert [it.score for it in ours] == pytest.approx([it.score for it in theirs], abs=1e-4)


def model_on(device: torch.device, config: ModelConfig = CONFIG) -> Transformer:
    return random_model(config).to(device)


@pytest.mark.parametrize(
    ("strategy", "n_best"), [(BeamSearch(4), 4), (BeamSearch(3, 0.0), 1), (Greedy(), 1)]
)
def test_it_finds_what_the_plain_model_finds(
    strategy: BeamSearch | Greedy, n_best: int, device: torch.device
) -> None:
    model, texts = model_on(device), TEXTS
    engine = GpuEngine(model, torch.float32)

    fast = found_fast(engine, texts, strategy, n_best=n_best)

    assert_same(fast, search(model, texts, strategy, LIMITS, n_best))
