"""The fused engine where there are no CUDA graphs: what it would record runs every time."""

import contextlib
from collections.abc import Callable, Iterator
from unittest import mock

import torch
from torch import Tensor

from allyouneed.training.fused import engine


class Unrecorded:
    """Stands for `Graphed`, and counts what that would have recorded."""

    n_recorded = 0

    def __init__(self, function: Callable[[], tuple[Tensor, ...]], pool: object) -> None:
        self._function = function
        self._n_calls = 0

    def __call__(self) -> tuple[Tensor, ...]:
        self._n_calls += 1
        Unrecorded.n_recorded += self._n_calls == 2
        return self._function()


@contextlib.contextmanager
def without_graphs() -> Iterator[None]:
    Unrecorded.n_recorded = 0
    with (
        mock.patch.object(engine, "Graphed", Unrecorded),
        mock.patch.object(torch.cuda, "graph_pool_handle", return_value=None),
    ):
        yield
