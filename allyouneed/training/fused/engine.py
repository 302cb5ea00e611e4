"""A training step on a GPU by hand-made kernels, recorded as CUDA graphs."""

import math

import torch
from torch import Tensor

from allyouneed.config import TrainingConfig
from allyouneed.data.batches import Batch
from allyouneed.kernels.graphs import Graphed
from allyouneed.model.transformer import Transformer
from allyouneed.training.distributed import Ranks
from allyouneed.training.fused.transformer import FusedTransformer
from allyouneed.training.loss import Loss


class FusedEngine:
    """The same as `PlainEngine`, faster."""

    def __init__(
        self,
        model: Transformer,
        optimizer: torch.optim.Optimizer,
        config: TrainingConfig,
        precision: torch.dtype,
        ranks: Ranks,
    ) -> None:
        self._fused = FusedTransformer(model, precision, config.label_smoothing)
        self._optimizer = optimizer
        self._clip_norm = config.clip_norm or math.inf
        self._ranks = ranks
        self._device = model.device
        self._scale = torch.zeros(1, device=self._device)
        self._seeds = torch.zeros(self._fused.n_seeds, dtype=torch.int64, device=self._device)
        # Padded batches have too many shapes to record them all.
        self._records = config.batching == "packed"
        self._pool = torch.cuda.graph_pool_handle()
        self._recorded: dict[tuple[torch.Size, torch.Size, bool], tuple[Batch, Graphed]] = {}
        self._recorded_update = Graphed(self._move_parameters, self._pool)

    def backward(self, batch: Batch, n_tokens: int, first: bool, last: bool) -> Loss:
        loss = self._add_gradient(batch, n_tokens, first)
        if last:
            self._ranks.sum_(self._fused.gradient)
        return loss

    def update(self) -> Tensor:
        return self._recorded_update()[0]

    def _add_gradient(self, batch: Batch, n_tokens: int, first: bool) -> Loss:
        self._scale.fill_(1 / n_tokens)
        torch.randint(2**31, self._seeds.shape, out=self._seeds)
        if not self._records:
            return self._loss_and_gradient(batch.to(self._device), first)
        key = batch.src.ids.shape, batch.tgt.ids.shape, first
        if key not in self._recorded:
            mine = batch.room_on(self._device)
            self._recorded[key] = (
                mine,
                Graphed(lambda: self._loss_and_gradient(mine, first), self._pool),
            )
        mine, recorded = self._recorded[key]
        mine.copy_(batch)
        return Loss(*recorded())

    def _loss_and_gradient(self, batch: Batch, first: bool) -> Loss:
        if first:
            self._fused.refresh()
        return self._fused.loss_and_gradient(batch, self._scale, self._seeds, add=not first)

    def _move_parameters(self) -> tuple[Tensor]:
        gradient = self._fused.gradient
        norm = gradient.norm()
        if self._clip_norm < math.inf:
            gradient.mul_((self._clip_norm / (norm + 1e-6)).clamp(max=1.0))
        self._optimizer.step()
        return (norm,)
