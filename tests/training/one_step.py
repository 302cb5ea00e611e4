"""A training step whose gradients can be looked at, by any number of ranks."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.config import ModelConfig, TrainingConfig
from allyouneed.data.batches import Batch, Batches, Position
from allyouneed.model.transformer import Transformer
from allyouneed.training.distributed import ALONE, Ranks
from allyouneed.training.optimizer import make_adam
from allyouneed.training.sharding import shard, whole
from allyouneed.training.step import Engine, TrainStep

MODEL = ModelConfig(
    vocab_size=50, n_layers=2, d_model=16, d_ff=32, n_heads=2, d_k=8, d_v=8, dropout=0.0
)
FUSIBLE = dataclasses.replace(MODEL, n_layers=1, d_k=16, d_v=16)  # what the kernels take
TRAINING = TrainingConfig(batch_tokens=224, row_width=32)  # seven rows: ranks have unequal parts


class RandomPairs:
    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(0)
        self.lengths = rng.integers(2, 12, (n, 2)).astype(np.int32)
        self.spans = ((0, n, 1.0, 1),)
        self._ids = [rng.integers(4, 50, lengths.sum()) for lengths in self.lengths]

    def texts(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        sides = [np.split(self._ids[index], [self.lengths[index, 0]]) for index in indices]
        sources, targets = zip(*sides, strict=True)
        return np.concatenate(sources), np.concatenate(targets)


def some_batches(config: TrainingConfig, n: int, ranks: Ranks = ALONE) -> list[Batch]:
    stream = Batches(RandomPairs(60), config, ranks.number, ranks.count).starting_at(Position())
    return [batch for batch, _ in itertools.islice(stream, n)]


def gradients_and_result(
    parallel: str,
    ranks: Ranks = ALONE,
    config: ModelConfig = MODEL,
    engine: Callable[..., Engine] | None = None,
) -> dict[str, Tensor]:
    """The whole gradients of a step of two batches, and what the step says of itself."""
    torch.manual_seed(0)
    model = Transformer(config)
    if parallel == "fsdp":
        shard(model)
    optimizer = make_adam(model, TRAINING)
    step = TrainStep(model, optimizer, TRAINING, ranks)
    if engine is not None:
        step._engine = engine(model, optimizer, TRAINING, torch.float32, ranks)
    gradients: dict[str, Tensor] = {}

    def keep(*_: object) -> None:
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            gradients[name] = whole(parameter.grad).clone()

    optimizer.register_step_pre_hook(keep)
    result = step(some_batches(TRAINING, 2, ranks))
    losses = {"loss": ranks.sum(result.loss), "nll": ranks.sum(result.nll)}
    return gradients | losses | {"grad_norm": result.grad_norm}
