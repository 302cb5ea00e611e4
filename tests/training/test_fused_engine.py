"""Steps by the fused engine against those by the plain one; nothing is recorded here."""

import dataclasses

import pytest
import torch
from one_step import RandomPairs, some_batches
from torch import Tensor
from torch.testing import assert_close

pytest.importorskip("triton", reason="Triton is not made for this system")

from unrecorded import Unrecorded, without_graphs

from allyouneed.config import ModelConfig, TrainingConfig
from allyouneed.data.batches import Batches
from allyouneed.model.transformer import Transformer
from allyouneed.training.distributed import ALONE
from allyouneed.training.fused.engine import FusedEngine
from allyouneed.training.optimizer import make_adam, set_rate
from allyouneed.training.step import Engine, PlainEngine, TrainStep

MODEL = ModelConfig(
    vocab_size=50, n_layers=1, d_model=32, d_ff=32, n_heads=2, d_k=16, d_v=16, dropout=0.0
)
TRAINING = TrainingConfig(batch_tokens=32, row_width=32, compile=False)
STEPS = 2


def trained_by(
    kind: type[Engine], config: TrainingConfig, device: torch.device
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Losses and norms of some steps of two batches each, and the weights after them."""
    torch.manual_seed(0)
    model = Transformer(MODEL).to(device)
    optimizer = make_adam(model, config)
    parts = model, optimizer, config, torch.float32, ALONE
    engine = kind(*parts)  # type: ignore[call-arg]
    set_rate(optimizer, 0.01)
    batches = some_batches(config, 2 * STEPS)
    seen: list[Tensor] = []
    for first, last in zip(batches[::2], batches[1::2], strict=True):
        n_tokens = first.n_tgt_tokens + last.n_tgt_tokens
        seen += engine.backward(first, n_tokens, first=True, last=False)
        seen += engine.backward(last, n_tokens, first=False, last=True)
        seen.append(engine.update())
    return [value.clone() for value in seen], model.state_dict()


@pytest.mark.parametrize("changes", [{"clip_norm": 0.1}, {"batching": "padded"}], ids=str)
def test_steps_are_those_of_the_plain_engine(
    changes: dict[str, object], device: torch.device
) -> None:
    config = dataclasses.replace(TRAINING, adam_epsilon=1e-3, **changes)  # type: ignore[arg-type]

    with without_graphs():
        seen, weights = trained_by(FusedEngine, config, device)

    expected_seen, expected = trained_by(PlainEngine, config, device)
    assert_close(seen, expected_seen, rtol=1e-4, atol=1e-4)
    assert_close(weights, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_after_the_probe_the_largest_batches_need_no_more_recording(
    accumulate: int, device: torch.device
) -> None:
    config = dataclasses.replace(TRAINING, accumulate=accumulate)
    model = Transformer(MODEL).to(device)
    optimizer = make_adam(model, config)
    largest = Batches(RandomPairs(60), config).largest()
    step = TrainStep(model, optimizer, config)
    with without_graphs():
        step._engine = FusedEngine(model, optimizer, config, torch.float32, ALONE)
        step.probe(largest)
        n_recorded = Unrecorded.n_recorded
        step([largest] * accumulate)  # which updates for the first time, and records no update

    assert n_recorded == Unrecorded.n_recorded == accumulate
