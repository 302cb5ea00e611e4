"""A room for one width of beams, and the steps that are made in it."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from allyouneed.inference.beams import Picks
from allyouneed.inference.gpu.model import GpuModel
from allyouneed.inference.gpu.room import Room, RoomSize
from allyouneed.kernels.graphs import Graphed


class Workspace:
    """What a search works in.

    A step is recorded as a graph, once for each number of slots out of 1, 2, 4, …; where it is
    computed by Triton's interpreter, on a CPU, there are no graphs.
    """

    def __init__(self, size: RoomSize, model: GpuModel) -> None:
        on_gpu = model.device.type == "cuda"
        self.room = room = Room(size, model.config, model.dtype, model.device)
        self.position_table = table = model.position_table(max(size.source, size.target))
        # One for the host while the other is under way.
        self._tickets = Ticket(size, pinned=on_gpu), Ticket(size, pinned=on_gpu)
        pool = torch.cuda.graph_pool_handle() if on_gpu else None
        self.steps = {}
        for n_slots in (1 << power for power in range(size.n_slots.bit_length())):
            slots = room.slots[:n_slots]

            def step(slots: Tensor = slots) -> tuple[Tensor]:
                return (model.step(room, slots, table),)

            self.steps[n_slots] = Graphed(step, pool) if on_gpu else step

    def next_ticket(self) -> "Ticket":
        """The one that was not given last, when nothing of it is under way any more."""
        self._tickets = self._tickets[::-1]
        self._tickets[0].wait()
        return self._tickets[0]


class Ticket:
    """What the host says and hears of a step; in pinned memory, so that copies wait for nobody."""

    def __init__(self, size: RoomSize, pinned: bool) -> None:
        kind: dict[str, Any] = {"dtype": torch.int32, "pin_memory": pinned}
        self.slots = torch.empty(size.n_slots, **kind)
        self.answer = torch.empty(size.n_slots, 3, size.n_beams, **kind)
        self._done: torch.cuda.Event | None = None

    def sign(self, device: torch.device) -> None:
        if device.type == "cuda":
            self._done = torch.cuda.Event()
            self._done.record(torch.cuda.current_stream(device))

    def wait(self) -> None:
        if self._done is not None:
            self._done.synchronize()

    def picks(self, n_slots: int) -> Picks:
        self.wait()
        ids, parents, bits = self.answer[:n_slots].numpy().transpose(1, 0, 2).copy()
        return Picks(ids, parents, bits.view(np.float32))
