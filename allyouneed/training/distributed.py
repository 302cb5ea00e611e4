"""One run by many processes: thin over torch.distributed.

A rank is a process with a device of its own; torchrun starts them. All ranks plan the same
batches, take their share of the rows, and sum their gradients, so that they always hold the same
weights.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.fsdp import FSDPModule
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from allyouneed.data.batches import Batch
from allyouneed.device import pick_device
from allyouneed.errors import ConfigError, TrainingError, UserError
from allyouneed.training.loss import Loss

# The first rank may prepare data, or write a checkpoint, while the others wait for it. That a rank
# has died torchrun finds out by itself.
LONGEST_WAIT = timedelta(hours=2)

Value = TypeVar("Value")
LossOfBatch = Callable[[Batch], Loss]


@dataclass(frozen=True)
class Ranks:
    """All ranks of a run as one of them sees them; by default it is alone."""

    number: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether it is this rank that writes and speaks."""
        return self.number == 0

    def sum(self, mine: Tensor) -> Tensor:
        return self.sum_(mine.clone(memory_format=torch.contiguous_format))

    def sum_(self, mine: Tensor) -> Tensor:
        """The same in place."""
        if self.count > 1:
            dist.all_reduce(mine)
        return mine

    def any(self, mine: bool) -> bool:
        return bool(self.sum(torch.tensor(int(mine))))

    def gather(self, mine: Value) -> list[Value]:
        """What each rank has, on every rank."""
        everyones: list[Any] = [mine]
        if self.count > 1:
            everyones = [None] * self.count
            dist.all_gather_object(everyones, mine)
        return everyones

    def wait(self) -> None:
        """Until all ranks are here."""
        self.gather(None)

    def first_does(self, work: Callable[[], object]) -> None:
        """The others wait; what a person must mend stops them all."""
        error: UserError | None = None
        if self.is_first:
            try:
                work()
            except UserError as found:
                error = found
        message = self.gather(error and str(error))[0]
        if message is not None:
            raise error or TrainingError(message)

    def seed(self, seed: int) -> None:
        """Let each rank drop other units; the first goes on as it would alone."""
        if not self.is_first:
            [own] = np.random.SeedSequence((seed, self.number)).generate_state(1)
            torch.manual_seed(int(own))


ALONE = Ranks()


def present_ranks() -> Ranks:
    """Those that this process has joined."""
    return Ranks(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else ALONE


@contextlib.contextmanager
def joined_ranks(device: str, attempt: int = 0) -> Iterator[None]:
    """Be one of the ranks that torchrun started, if it did, with a GPU of its own.

    `attempt` says how often it has started them again.
    """
    if not dist.is_torchelastic_launched():
        yield
        return
    own_device = device_of_rank(device, dist.get_node_local_rank())
    on_gpu = own_device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(own_device)
    store, number, count = next(rendezvous("env://", timeout=LONGEST_WAIT))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        # The store outlives the ranks; they must not find the addresses of earlier ones there.
        store=PrefixStore(f"attempt-{attempt}", store),
        rank=number,
        world_size=count,
        timeout=LONGEST_WAIT,
        device_id=own_device if on_gpu else None,
    )
    yield
    # Not after an error: to leave in order takes all ranks, and the others may be anywhere. DDP
    # keeps the group, and its threads, in reference cycles; a thread left at exit may abort it.
    gc.collect()
    dist.destroy_process_group()


def device_of_rank(name: str, local_rank: int) -> torch.device:
    if name.startswith("cuda:"):
        raise ConfigError(
            f"training.device is {name}, and every rank needs a GPU of its own; set auto"
        )
    if name not in ("auto", "cuda"):
        return pick_device(name)
    n_gpus = torch.cuda.device_count()
    if name == "auto" and n_gpus == 0:
        return pick_device("cpu")
    if local_rank >= n_gpus:
        raise ConfigError(
            f"this machine has {n_gpus} GPUs and torchrun started a process number "
            f"{local_rank + 1}; lower --nproc-per-node, or set training.device to cpu"
        )
    return torch.device("cuda", local_rank)


def averaging_gradients(
    model: nn.Module, loss: LossOfBatch, ranks: Ranks
) -> Callable[[Batch, bool], Loss]:
    """A loss whose backward pass averages the model's gradients over the ranks if it is told to.

    Of the batches that make a step only the last one needs to: the average is of their sum.
    """
    if isinstance(model, FSDPModule):

        def of_shards(batch: Batch, average: bool) -> Loss:
            model.set_requires_gradient_sync(average)
            return loss(batch)

        return of_shards
    if ranks.count == 1:
        return lambda batch, average: loss(batch)
    replica = DistributedDataParallel(_LossModule(model, loss), gradient_as_bucket_view=True)

    def of_replica(batch: Batch, average: bool) -> Loss:
        with contextlib.nullcontext() if average else replica.no_sync():
            return replica(batch)

    return of_replica


class _LossModule(nn.Module):
    """The loss with the parameters that it depends on, as DDP takes it."""

    def __init__(self, model: nn.Module, loss: LossOfBatch) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, batch: Batch) -> Loss:
        return self._loss(batch)
