"""One training step: accumulation, packing, memory."""

import dataclasses

import pytest
import torch
from one_step import RandomPairs, some_batches
from torch import Tensor
from torch.testing import assert_close

from allyouneed.config import ModelConfig, TrainingConfig
from allyouneed.data.batches import Batch, Batches
from allyouneed.errors import ConfigError
from allyouneed.model.transformer import Transformer
from allyouneed.rows import Rows
from allyouneed.training.loss import Loss, label_smoothed_loss
from allyouneed.training.optimizer import make_adam, set_rate
from allyouneed.training.step import TrainStep

MODEL = ModelConfig(
    vocab_size=50, n_layers=1, d_model=16, d_ff=32, n_heads=2, d_k=8, d_v=8, dropout=0.0
)
TRAINING = TrainingConfig(batch_tokens=128, row_width=32)


def make_step(config: TrainingConfig = TRAINING) -> tuple[TrainStep, Transformer]:
    torch.manual_seed(0)
    model = Transformer(MODEL)
    optimizer = make_adam(model, config)
    set_rate(optimizer, 0.01)
    return TrainStep(model, optimizer, config), model


def weights_after(batches: list[Batch], config: TrainingConfig = TRAINING) -> dict[str, Tensor]:
    step, model = make_step(config)
    step(batches)
    return model.state_dict()


def test_accumulated_batches_are_one_larger_batch() -> None:
    small = some_batches(TRAINING, 2)
    src, tgt = (
        Rows(*map(torch.cat, zip(*side, strict=True)))
        for side in zip(*((b.src, b.tgt) for b in small), strict=True)
    )
    joined = Batch(
        src,
        tgt,
        labels=torch.cat([b.labels for b in small]),
        pairs=small[0].pairs + small[1].pairs,
        n_src_tokens=sum(b.n_src_tokens for b in small),
        n_tgt_tokens=sum(b.n_tgt_tokens for b in small),
    )

    assert_close(weights_after(small), weights_after([joined]), rtol=1e-4, atol=1e-5)


def test_packed_and_padded_batches_of_the_same_pairs_have_the_same_loss() -> None:
    whole_epoch = dataclasses.replace(TRAINING, batch_tokens=4096)
    padded_config = dataclasses.replace(whole_epoch, batching="padded")
    (packed,), (padded,) = some_batches(whole_epoch, 1), some_batches(padded_config, 1)
    assert sorted(packed.pairs) == sorted(padded.pairs) == list(range(60))
    step, model = make_step()
    other_step, other_model = make_step()

    assert_close(step([packed]).loss, other_step([padded]).loss)
    assert_close(model.state_dict(), other_model.state_dict(), rtol=1e-3, atol=1e-4)


def test_steps_lower_the_loss() -> None:
    step, _ = make_step()
    batches = some_batches(TRAINING, 1)

    losses = [step(batches).loss.item() for _ in range(30)]

    assert losses[-1] < losses[0] / 2


def test_clipping_bounds_what_a_step_uses_but_reports_the_whole_norm() -> None:
    batches = some_batches(TRAINING, 1)
    free, clipped = (
        make_step(dataclasses.replace(TRAINING, clip_norm=norm))[0] for norm in (None, 1e-12)
    )

    assert_close(free(batches).grad_norm, clipped(batches).grad_norm)
    # Adam rescales gradients, but not ones that are far below its epsilon.
    tiny = dataclasses.replace(TRAINING, clip_norm=1e-12)
    assert_close(weights_after(batches, tiny), make_step()[1].state_dict(), atol=1e-4, rtol=1e-3)


def test_probing_the_memory_changes_nothing() -> None:
    config = dataclasses.replace(MODEL, dropout=0.5)
    model = Transformer(config)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimizer = make_adam(model, TRAINING)
    step = TrainStep(model, optimizer, TRAINING)
    random_state = torch.get_rng_state()

    step.probe(Batches(RandomPairs(60), TRAINING).largest())

    assert torch.get_rng_state().equal(random_state)
    assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert not optimizer.state


def test_probing_makes_room_for_the_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    step, _ = make_step()
    stepped: list[int] = []
    monkeypatch.setattr(step._optimizer, "step", lambda: stepped.append(1))

    step.probe(Batches(RandomPairs(60), TRAINING).largest())

    assert stepped


def test_what_was_probed_leaves_no_trace_in_the_next_step() -> None:
    batches = some_batches(TRAINING, 1)
    step, model = make_step()
    step.probe(Batches(RandomPairs(60), TRAINING).largest())
    set_rate(step._optimizer, 0.01)
    step(batches)

    assert_close(model.state_dict(), weights_after(batches), rtol=0, atol=0)


def test_bfloat16_is_used_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.dtype] = []

    def watched(logits: Tensor, labels: Tensor, smoothing: float) -> Loss:
        seen.append(logits.dtype)
        return label_smoothed_loss(logits, labels, smoothing)

    monkeypatch.setattr("allyouneed.training.step.label_smoothed_loss", watched)
    for precision in ("float32", "bfloat16"):
        config = dataclasses.replace(TRAINING, precision=precision)
        make_step(config)[0](some_batches(TRAINING, 1))

    assert seen == [torch.float32, torch.bfloat16]


def test_kernels_that_cannot_run_here_are_refused() -> None:
    with pytest.raises(ConfigError, match="needs an NVIDIA GPU"):
        make_step(dataclasses.replace(TRAINING, fused=True))
