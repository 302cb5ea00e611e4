"""Beams on a CUDA device.

Shapes: A slots that advance, K beams a slot.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.device import as_current
from allyouneed.inference.beams import NONE, Beam, Picks, Task, longest_of
from allyouneed.inference.gpu.model import GpuModel
from allyouneed.inference.gpu.room import Room, RoomSize
from allyouneed.kernels.graphs import Graphed
from allyouneed.model.transformer import Transformer
from allyouneed.rows import PADDING, Rows
from allyouneed.text.tokenizer import BEGIN, END, PAD

_P = ParamSpec("_P")
_R = TypeVar("_R")

_MOST_ROWS = 2048  # hypotheses at once: more would be hardly faster
_SHARE_OF_MEMORY = 0.5  # the most that a search takes of the device's
_ENCODED_AT_ONCE = 16_384  # tokens, with padding
_WIDTHS = 16  # a batch is so many tokens wide, or twice, …: few kernels to compile


def _on_its_device(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Triton launches kernels on the current device, which need not be the model's."""

    @functools.wraps(method)
    def there(*arguments: _P.args, **named: _P.kwargs) -> _R:
        with as_current(cast(GpuEngine, arguments[0]).device), torch.no_grad():
            return method(*arguments, **named)

    return there


class GpuEngine:
    """`Beams`, with all that they need on the device; a search holds `lock` meanwhile.

    A step is recorded as a graph, once for each number of slots out of 1, 2, 4, …; where it is
    computed by Triton's interpreter, on a CPU, there are no graphs.
    """

    ahead = 1
    refill_share = 1 / 8
    widest_beam = 16  # whose candidates fit into the registers of one program

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        self.lock = threading.Lock()
        self.config = model.config
        self.device = model.device
        self._model = GpuModel(model, dtype)
        self._room: Room | None = None
        self._tickets = (_Ticket(), _Ticket())  # one for the host while the other is under way

    @property
    def name(self) -> str:
        return f"GPU {self._model.dtype}".replace("torch.", "")

    @property
    def beams(self) -> "GpuEngine":
        return self

    def most_slots(self, n_beams: int, longest_source: int, longest_target: int) -> int:
        most = max(1, _MOST_ROWS // n_beams)
        one = RoomSize.at_least(1, n_beams, longest_source, longest_target)
        fitting = self._memory() // one.bytes(self.config, self._model.dtype)
        return min(most, 1 << max(1, fitting).bit_length() - 1)

    @_on_its_device
    def reserve(self, n_slots: int, beam: Beam, tasks: Sequence[Task]) -> None:
        size = RoomSize.at_least(n_slots, beam.size, *longest_of(tasks))
        if self._room is None or not self._room.size.holds(size):
            self._make_room(size)
        assert self._room is not None
        self._room.min_length.fill_(beam.min_length)

    @_on_its_device
    def begin(self, tasks: Sequence[Task], slots: Sequence[int]) -> None:
        room = self._the_room()
        for part in chunks([len(task.source) + 1 for task in tasks]):
            self._encode(tasks[part], slots[part])
        places = self._sent(np.array(slots, dtype=np.int64))
        forced = np.full((len(tasks), room.size.target), NONE, dtype=np.int32)
        for row, task in zip(forced, tasks, strict=True):
            row[: len(task.prefix)] = task.prefix
        room.forced.index_copy_(0, places, self._sent(forced))
        room.position.index_fill_(0, places, 0)
        room.n_ended.index_fill_(0, places, 0)
        room.last.index_fill_(0, places, BEGIN)
        room.log_prob.index_fill_(0, places, -torch.inf)
        room.log_prob[:, 0].index_fill_(0, places, 0)

    @_on_its_device
    def advance(self, slots: NDArray[np.int64]) -> Callable[[], Picks]:
        room = self._the_room()
        ticket, _ = self._tickets = self._tickets[::-1]
        n_slots = 1 << (len(slots) - 1).bit_length()
        ticket.wait()
        ticket.slots[: len(slots)] = torch.from_numpy(slots)
        ticket.slots[len(slots) : n_slots] = room.spare
        room.slots[:n_slots].copy_(ticket.slots[:n_slots], non_blocking=True)
        (answer,) = self._steps[n_slots]()
        ticket.answer[:n_slots].copy_(answer, non_blocking=True)
        ticket.sign(self.device)
        return lambda: ticket.picks(len(slots))

    def _make_room(self, size: RoomSize) -> None:
        """Instead of the one that there is, for what that was for as well if the memory allows."""
        if self._room is not None and self._room.size.n_beams == size.n_beams:
            both = size.joined(self._room.size)
            size = both if both.bytes(self.config, self._model.dtype) <= self._memory() else size
        on_gpu = self.device.type == "cuda"
        if on_gpu:
            torch.cuda.synchronize(self.device)  # a step may still be under way
        self._room, self._steps = None, {}
        room = self._room = Room(size, self.config, self._model.dtype, self.device)
        table = self._position_table = self._model.position_table(max(size.source, size.target))
        for ticket in self._tickets:
            ticket.make_room(size, pinned=on_gpu)
        pool = torch.cuda.graph_pool_handle() if on_gpu else None
        for n_slots in (1 << power for power in range(size.n_slots.bit_length())):
            slots = room.slots[:n_slots]

            def step(slots: Tensor = slots) -> tuple[Tensor]:
                return (self._model.step(room, slots, table),)

            self._steps[n_slots] = Graphed(step, pool) if on_gpu else step

    def _encode(self, tasks: Sequence[Task], slots: Sequence[int]) -> None:
        room = self._the_room()
        lengths = np.array([len(task.source) + 1 for task in tasks], dtype=np.int32)
        width = -(-int(lengths.max()) // _WIDTHS) * _WIDTHS
        position = np.tile(np.arange(width), (len(tasks), 1))
        is_token = position < lengths[:, None]
        ids = np.full(is_token.shape, PAD, dtype=np.int64)
        ids[is_token] = [id_ for task in tasks for id_ in (*task.source, END)]
        sentence = np.where(is_token, 0, PADDING)
        src = Rows(*map(self._sent, (ids, sentence, position)))
        read = self._model.read(src, self._position_table).view(len(tasks), width, -1)
        places = self._sent(np.array(slots, dtype=np.int64))
        room.memory[:, :width].index_copy_(0, places, read)
        room.n_source.index_copy_(0, places, self._sent(lengths))

    def _the_room(self) -> Room:
        assert self._room is not None, "`reserve` first"
        return self._room

    def _sent(self, array: NDArray[np.generic]) -> Tensor:
        """To the device, without waiting for it."""
        tensor = torch.from_numpy(array)
        if self.device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def _memory(self) -> int:
        """Bytes that a search may take."""
        if self.device.type == "cpu":
            return 2**30
        total = torch.cuda.get_device_properties(self.device).total_memory
        return int(_SHARE_OF_MEMORY * total)


class _Ticket:
    """What the host says and hears of a step; in pinned memory, so that copies wait for nobody."""

    def __init__(self) -> None:
        self._done: torch.cuda.Event | None = None

    def make_room(self, size: RoomSize, pinned: bool) -> None:
        kind: dict[str, Any] = {"dtype": torch.int32, "pin_memory": pinned}
        self.slots = torch.empty(size.n_slots, **kind)
        self.answer = torch.empty(size.n_slots, 3, size.n_beams, **kind)

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


def chunks(lengths: Sequence[int]) -> Iterator[slice]:
    """Runs of `lengths` that may be encoded together."""
    start = longest = 0
    for place, length in enumerate(lengths):
        longest = max(longest, length)
        if place > start and (place + 1 - start) * longest > _ENCODED_AT_ONCE:
            yield slice(start, place)
            start, longest = place, length
    yield slice(start, len(lengths))
