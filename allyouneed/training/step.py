"""One training step: forward, backward, Adam; nothing waits for the device."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from allyouneed.config import TrainingConfig
from allyouneed.data.batches import Batch
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


class TrainStep:
    """Calls add up the gradients of some batches and let the optimizer use them."""

    def __init__(
        self,
        model: Transformer,
        optimizer: torch.optim.Optimizer,
        config: TrainingConfig,
        ranks: Ranks = ALONE,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._config = config
        self._device = model.device
        on_gpu = self._device.type == "cuda"
        self.precision = (
            ("bfloat16" if on_gpu else "float32")
            if config.precision == "auto"
            else config.precision
        )
        compiled = on_gpu if config.compile is None else config.compile
        loss: Callable[[Batch], Loss] = self._compute_loss
        if compiled:
            # Packed batches have few fixed shapes, padded ones a new shape each.
            loss = torch.compile(loss, dynamic=config.batching == "padded")
        self._ranks = ranks
        self._loss = averaging_gradients(model, loss, ranks)

    def __call__(self, batches: Sequence[Batch]) -> StepResult:
        n_tokens = sum(batch.n_tgt_tokens for batch in batches)
        losses = [
            self._backward(batch, n_tokens, last=number == len(batches))
            for number, batch in enumerate(batches, start=1)
        ]
        grad_norm = torch.nn.utils.clip_grad_norm_(
            self._model.parameters(), self._config.clip_norm or float("inf")
        )
        self._optimizer.step()
        self._optimizer.zero_grad()
        smoothed, nll = (torch.stack(parts).sum() / n_tokens for parts in zip(*losses, strict=True))
        return StepResult(smoothed, nll, whole(grad_norm))

    def probe(self, batch: Batch) -> None:
        """Find out whether the memory holds a batch; nothing is learned from it."""
        devices = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            self._backward(batch, batch.n_tgt_tokens, last=True)
        set_rate(self._optimizer, 0.0)
        self._optimizer.step()  # makes room for Adam's moments
        self._optimizer.state.clear()
        self._optimizer.zero_grad()

    def _backward(self, batch: Batch, n_tokens: int, last: bool) -> Loss:
        loss = self._loss(batch.to(self._device), last)
        # The gradient is the sum over the ranks, each of which has its part of the batch.
        torch.autograd.backward(loss.smoothed * (self._ranks.count / n_tokens))
        return Loss(loss.smoothed.detach(), loss.nll)

    def _compute_loss(self, batch: Batch) -> Loss:
        bfloat16 = self.precision == "bfloat16"
        with torch.autocast(self._device.type, torch.bfloat16, enabled=bfloat16):
            logits = self._model(batch.src, batch.tgt)
        return label_smoothed_loss(logits, batch.labels, self._config.label_smoothing)
