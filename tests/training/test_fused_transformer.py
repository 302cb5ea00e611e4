"""Loss and gradient of the whole model against automatic differentiation of the plain one."""

import dataclasses
from typing import Any

import pytest
import torch
from one_step import RandomPairs
from torch import Tensor
from torch.testing import assert_close

pytest.importorskip("triton", reason="Triton is not made for this system")

from allyouneed.config import ModelConfig, TrainingConfig
from allyouneed.data.batches import Batch, Batches, Position
from allyouneed.model.transformer import Transformer
from allyouneed.training.fused.transformer import FusedTransformer
from allyouneed.training.loss import label_smoothed_loss

MODEL = ModelConfig(
    vocab_size=50, n_layers=2, d_model=32, d_ff=40, n_heads=2, d_k=16, d_v=16, dropout=0.0
)


def a_batch(row_width: int, device: torch.device, n_rows: int = 2) -> Batch:
    training = TrainingConfig(batch_tokens=n_rows * row_width, row_width=row_width)
    batch, _ = next(Batches(RandomPairs(60), training).starting_at(Position()))
    return batch.to(device)


def plain(model: Transformer, batch: Batch, scale: float) -> tuple[float, dict[str, Tensor]]:
    model.zero_grad()
    loss = label_smoothed_loss(model(batch.src, batch.tgt), batch.labels, 0.1)
    torch.autograd.backward(loss.smoothed * scale)
    return loss.smoothed.item(), gradients(model)


def gradients(model: Transformer) -> dict[str, Tensor]:
    found = {}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        found[name] = parameter.grad.clone()
    return found


@pytest.mark.parametrize(
    ("changes", "row_width"),
    [
        ({}, 32),
        ({"n_decoder_layers": 1}, 24),
        ({"positions": "learned", "max_positions": 40}, 32),
        ({"d_v": 32, "d_model": 48}, 32),
    ],
    ids=["base", "fewer decoder layers", "learned positions", "other sizes"],
)
def test_it_is_the_plain_model(
    changes: dict[str, Any], row_width: int, device: torch.device
) -> None:
    model = Transformer(dataclasses.replace(MODEL, **changes)).to(device)
    batch = a_batch(row_width, device)
    expected_loss, expected = plain(model, batch, scale=0.5)
    fused = FusedTransformer(model, torch.float32, label_smoothing=0.1)
    seeds = torch.arange(fused.n_seeds, device=device)
    scale = torch.tensor([0.5], device=device)

    fused.refresh()
    loss = fused.loss_and_gradient(batch, scale, seeds, add=False)
    once = gradients(model)
    fused.loss_and_gradient(batch, scale, seeds, add=True)

    assert loss.smoothed.item() == pytest.approx(expected_loss, rel=1e-5)
    assert_close(once, expected, rtol=1e-3, atol=1e-5)
    twice = {name: 2 * gradient for name, gradient in expected.items()}
    assert_close(gradients(model), twice, rtol=1e-3, atol=2e-5)
    assert_close(
        fused.gradient.norm(), torch.stack([g.norm() for g in twice.values()]).norm(), rtol=1e-4,
        atol=0.0,
    )  # fmt: skip


def rounding(found: dict[str, Tensor], exact: dict[str, Tensor]) -> dict[str, float]:
    """How far off gradients are, as a share of their norm: of each parameter, and of all."""
    off = {name: (found[name].float() - its).norm() for name, its in exact.items()}
    norms = {name: its.norm() for name, its in exact.items()}
    off["all"], norms["all"] = (torch.stack(list(it.values())).norm() for it in (off, norms))
    return {name: (off[name] / norms[name]).item() for name in off}


@pytest.mark.gpu  # Triton's interpreter has no bfloat16 products
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_in_bfloat16_it_rounds_no_more_than_the_plain_model(device: torch.device) -> None:
    model = Transformer(MODEL).to(device)
    batch = a_batch(32, device, n_rows=8)
    exact_loss, exact = plain(model, batch, scale=0.01)
    with torch.autocast(device.type, torch.bfloat16):
        _, plainly = plain(model, batch, scale=0.01)
    fused = FusedTransformer(model, torch.bfloat16, label_smoothing=0.1)
    seeds = torch.arange(fused.n_seeds, device=device)

    fused.refresh()
    loss = fused.loss_and_gradient(batch, torch.tensor([0.01], device=device), seeds, add=False)

    assert loss.smoothed.item() == pytest.approx(exact_loss, rel=2e-3)
    usual, found = rounding(plainly, exact), rounding(gradients(model), exact)
    assert found["all"] < 2 * usual["all"]
    assert max(found.values()) < 3 * max(usual.values())


def test_with_dropout_the_gradient_is_that_of_the_very_network_that_was_drawn(
    device: torch.device,
) -> None:
    model = Transformer(dataclasses.replace(MODEL, n_layers=1, dropout=0.3)).to(device)
    batch = a_batch(16, device, n_rows=1)
    fused = FusedTransformer(model, torch.float32, label_smoothing=0.1)
    seeds = torch.arange(fused.n_seeds, device=device)
    scale = torch.tensor([1.0], device=device)

    def loss() -> float:
        fused.refresh()
        return fused.loss_and_gradient(batch, scale, seeds, add=False).smoothed.item()

    loss()
    gradient = gradients(model)
    for name in (
        "embedding.weight",
        "encoder.layers.0.self_attention.w_q.weight",
        "encoder.layers.0.feed_forward_norm.norm.weight",
        "decoder.layers.0.self_attention.w_o.weight",
        "decoder.layers.0.memory_attention.w_k.weight",
        "decoder.layers.0.feed_forward.w_2.bias",
    ):
        parameter = model.get_parameter(name)
        direction = gradient[name] / gradient[name].norm()
        with torch.no_grad():
            parameter.add_(2e-3 * direction)
            higher = loss()
            parameter.sub_(4e-3 * direction)
            slope = (higher - loss()) / 4e-3
            parameter.add_(2e-3 * direction)
        assert slope == pytest.approx(gradient[name].norm().item(), rel=0.05), name

    before = loss()
    for place in range(fused.n_seeds):  # each has dropout of its own
        other_seeds = seeds.clone()
        other_seeds[place] += 1000
        other = fused.loss_and_gradient(batch, scale, other_seeds, add=False)
        assert other.smoothed.item() != before


def test_the_optimizer_is_followed_once_refreshed(device: torch.device) -> None:
    model = Transformer(MODEL).to(device)
    batch = a_batch(32, device)
    fused = FusedTransformer(model, torch.float32, label_smoothing=0.1)
    seeds, scale = torch.arange(fused.n_seeds, device=device), torch.ones(1, device=device)
    fused.refresh()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    twin = Transformer(MODEL).to(device)
    twin.load_state_dict(model.state_dict())
    expected, _ = plain(twin, batch, scale=1.0)

    fused.refresh()

    found = fused.loss_and_gradient(batch, scale, seeds, add=False).smoothed.item()
    assert found == pytest.approx(expected, rel=1e-5)
