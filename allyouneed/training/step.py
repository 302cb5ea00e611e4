"""One training step: forward, backward, Adam; nothing waits for the device."""

import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from allyouneed.config import TrainingConfig
from allyouneed.data.batches import Batch
from allyouneed.errors import ConfigError
from allyouneed.model.transformer import Transformer
from allyouneed.training.distributed import ALONE, Ranks, averaging_gradients
from allyouneed.training.loss import Loss, label_smoothed_loss
from allyouneed.training.optimizer import set_rate
from allyouneed.training.sharding import whole


class StepResult(NamedTuple):
    """Means over the target tokens of a step; they stay on the device until someone looks.

    Of the two losses each rank has a part: their sum is the mean.
    """

    loss: Tensor
    nll: Tensor
    grad_norm: Tensor


class Engine(Protocol):
    """Computes gradients into the parameters' `grad`, and lets the optimizer use them."""

    def backward(self, batch: Batch, n_tokens: int, first: bool, last: bool) -> Loss:
        """Gradients of the loss over `n_tokens`, those of all ranks, with the `last` of a step.

        They replace those of before with the `first` batch of a step, and are added otherwise.
        """

    def update(self) -> Tensor:
        """Clip and step; the norm of the gradients before they were clipped."""


class PlainEngine:
    """By automatic differentiation of the model as it is written."""

    def __init__(
        self,
        model: Transformer,
        optimizer: torch.optim.Optimizer,
        config: TrainingConfig,
        precision: torch.dtype,
        ranks: Ranks,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._config = config
        self._device = model.device
        self._precision = precision
        self._ranks = ranks
        loss: Callable[[Batch], Loss] = self._compute_loss
        if self._device.type == "cuda" if config.compile is None else config.compile:
            # Packed batches have few fixed shapes, padded ones a new shape each.
            loss = torch.compile(loss, dynamic=config.batching == "padded")
        self._loss = averaging_gradients(model, loss, ranks)

    def backward(self, batch: Batch, n_tokens: int, first: bool, last: bool) -> Loss:
        if first:
            self._optimizer.zero_grad()
        loss = self._loss(batch.to(self._device), last)
        # The gradient is the sum over the ranks, each of which has its part of the batch.
        torch.autograd.backward(loss.smoothed * (self._ranks.count / n_tokens))
        return Loss(loss.smoothed.detach(), loss.nll)

    def update(self) -> Tensor:
        norm = torch.nn.utils.clip_grad_norm_(
            self._model.parameters(), self._config.clip_norm or math.inf
        )
        self._optimizer.step()
        return whole(norm)

    def _compute_loss(self, batch: Batch) -> Loss:
        reduced = self._precision != torch.float32
        with torch.autocast(self._device.type, self._precision, enabled=reduced):
            logits = self._model(batch.src, batch.tgt)
        return label_smoothed_loss(logits, batch.labels, self._config.label_smoothing)


class TrainStep:
    """Calls add up the gradients of some batches and let the optimizer use them."""

    def __init__(
        self,
        model: Transformer,
        optimizer: torch.optim.Optimizer,
        config: TrainingConfig,
        ranks: Ranks = ALONE,
    ) -> None:
        self._optimizer = optimizer
        self._device = model.device
        self._accumulates = config.accumulate > 1
        on_gpu = self._device.type == "cuda"
        self.precision = (
            ("bfloat16" if on_gpu else "float32")
            if config.precision == "auto"
            else config.precision
        )
        parts = model, optimizer, config, getattr(torch, self.precision), ranks
        self._engine: Engine
        if config.fused and not _can_fuse(model):
            raise ConfigError(
                "training.fused needs an NVIDIA GPU of compute capability 8.0 or more, Triton, and "
                "heads of 16, 32, 64 or 128; leave it out"
            )
        if _can_fuse(model) and config.fused is not False:
            from allyouneed.training.fused.engine import FusedEngine

            self._engine = FusedEngine(*parts)
        else:
            self._engine = PlainEngine(*parts)

    def __call__(self, batches: Sequence[Batch]) -> StepResult:
        n_tokens = sum(batch.n_tgt_tokens for batch in batches)
        losses = [
            self._engine.backward(batch, n_tokens, first=number == 1, last=number == len(batches))
            for number, batch in enumerate(batches, start=1)
        ]
        grad_norm = self._engine.update()
        smoothed, nll = (torch.stack(parts).sum() / n_tokens for parts in zip(*losses, strict=True))
        return StepResult(smoothed, nll, grad_norm)

    def probe(self, batch: Batch) -> None:
        """Find out whether the memory holds a batch; nothing is learned from it.

        An engine may record what it does when it does it again, in memory besides that of the first
        time; what is recorded later, of smaller batches, finds room there.
        """
        devices = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            for first in (True, False) if self._accumulates else (True,):
                for _ in range(2):
                    self._engine.backward(batch, batch.n_tgt_tokens, first, last=True)
        set_rate(self._optimizer, 0.0)
        self._optimizer.step()  # makes room for Adam's moments
        self._optimizer.state.clear()


def _can_fuse(model: Transformer) -> bool:
    """Whether the kernels of `training.fused` can run this model here."""
    sizes = model.config.d_k, model.config.d_v
    return (
        model.device.type == "cuda"
        and torch.cuda.get_device_capability(model.device) >= (8, 0)  # bfloat16 products
        and not isinstance(model, FSDPModule)
        and importlib.util.find_spec("triton") is not None
        and all(size in (16, 32, 64, 128) for size in sizes)
    )
