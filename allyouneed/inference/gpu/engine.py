"""Beams on a CUDA device.

Shapes: A slots that advance, K beams a slot.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from allyouneed.device import as_current
from allyouneed.inference.beams import NONE, Beam, Picks, Task, longest_of
from allyouneed.inference.gpu.model import GpuModel
from allyouneed.inference.gpu.room import RoomSize
from allyouneed.inference.gpu.workspace import Workspace
from allyouneed.model.transformer import Transformer
from allyouneed.rows import PADDING, Rows
from allyouneed.text.tokenizer import BEGIN, END, PAD

_P = ParamSpec("_P")
_R = TypeVar("_R")

_MOST_ROWS = 2048  # hypotheses at once: more would be hardly faster
_SHARE_OF_MEMORY = 0.5  # of what is free: the rest is for encoding and for others
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
    """`Beams`, with all that they need on the device; a search holds `lock` meanwhile."""

    ahead = 1
    refill_share = 1 / 8
    widest_beam = 16  # whose candidates fit into the registers of one program

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        self.lock = threading.Lock()
        self.config = model.config
        self.device = model.device
        self.narrow_range = dtype == torch.float16
        self._model = GpuModel(model, dtype)
        self._workspaces: dict[int, Workspace] = {}  # by the width of their beams

    @property
    def name(self) -> str:
        return f"GPU {self._model.dtype}".replace("torch.", "")

    @property
    def _workspace(self) -> Workspace:
        """That of the search under way; nothing else refers to it, so that it can be given up."""
        return self._workspaces[self._n_beams]

    @property
    def beams(self) -> "GpuEngine":
        return self

    def most_slots(self, n_beams: int, longest_source: int, longest_target: int) -> int:
        most = max(1, _MOST_ROWS // n_beams)
        one = RoomSize.at_least(1, n_beams, longest_source, longest_target)
        fitting = self._memory() // self._bytes(one)
        return min(most, 1 << max(1, fitting).bit_length() - 1)

    @_on_its_device
    def reserve(self, n_slots: int, beam: Beam, tasks: Sequence[Task]) -> None:
        size = RoomSize.at_least(n_slots, beam.size, *longest_of(tasks))
        if not any(workspace.room.size.holds(size) for workspace in self._workspaces.values()):
            self._make_room(size)
        self._n_beams = beam.size
        self._workspace.room.min_length.fill_(beam.min_length)

    @_on_its_device
    def begin(self, tasks: Sequence[Task], slots: Sequence[int]) -> None:
        room = self._workspace.room
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
        room, ticket = self._workspace.room, self._workspace.next_ticket()
        n_slots = 1 << (len(slots) - 1).bit_length()
        ticket.slots[: len(slots)] = torch.from_numpy(slots)
        ticket.slots[len(slots) : n_slots] = room.spare
        room.slots[:n_slots].copy_(ticket.slots[:n_slots], non_blocking=True)
        (answer,) = self._workspace.steps[n_slots]()
        ticket.answer[:n_slots].copy_(answer, non_blocking=True)
        ticket.sign(self.device)
        return lambda: ticket.picks(len(slots))

    def _make_room(self, size: RoomSize) -> None:
        """Also for what the room of this width was for, and beside the others, if they all fit."""
        memory = self._memory()
        if size.n_beams in self._workspaces:
            both = size.joined(self._workspaces[size.n_beams].room.size)
            size = both if self._bytes(both) <= memory else size
        on_gpu = self.device.type == "cuda"
        if on_gpu:
            torch.cuda.synchronize(self.device)  # a step may still be under way
        self._workspaces.pop(size.n_beams, None)
        if self._bytes(size) + self._bytes_in_use() > memory:
            self._workspaces.clear()
        if on_gpu:
            torch.cuda.empty_cache()  # what was given up is free for everybody
        self._workspaces[size.n_beams] = Workspace(size, self._model)

    def _encode(self, tasks: Sequence[Task], slots: Sequence[int]) -> None:
        room = self._workspace.room
        lengths = np.array([len(task.source) + 1 for task in tasks], dtype=np.int32)
        width = -(-int(lengths.max()) // _WIDTHS) * _WIDTHS
        position = np.tile(np.arange(width), (len(tasks), 1))
        is_token = position < lengths[:, None]
        ids = np.full(is_token.shape, PAD, dtype=np.int64)
        ids[is_token] = [id_ for task in tasks for id_ in (*task.source, END)]
        sentence = np.where(is_token, 0, PADDING)
        src = Rows(*map(self._sent, (ids, sentence, position)))
        read = self._model.read(src, self._workspace.position_table).view(len(tasks), width, -1)
        places = self._sent(np.array(slots, dtype=np.int64))
        room.memory[:, :width].index_copy_(0, places, read)
        room.n_source.index_copy_(0, places, self._sent(lengths))

    def _sent(self, array: NDArray[np.generic]) -> Tensor:
        """To the device, without waiting for it."""
        tensor = torch.from_numpy(array)
        if self.device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def _memory(self) -> int:
        """Bytes that searches may take: a share of what nobody else has."""
        if self.device.type == "cpu":
            return 2**30
        free, _ = torch.cuda.mem_get_info(self.device)
        return int(_SHARE_OF_MEMORY * (free + self._bytes_in_use()))

    def _bytes_in_use(self) -> int:
        return sum(self._bytes(workspace.room.size) for workspace in self._workspaces.values())

    def _bytes(self, size: RoomSize) -> int:
        return size.bytes(self.config, self._model.dtype)


def chunks(lengths: Sequence[int]) -> Iterator[slice]:
    """Runs of `lengths` that may be encoded together."""
    start = longest = 0
    for place, length in enumerate(lengths):
        longest = max(longest, length)
        if place > start and (place + 1 - start) * longest > _ENCODED_AT_ONCE:
            yield slice(start, place)
            start, longest = place, length
    yield slice(start, len(lengths))
