"""CUDA graphs: work that is recorded once and then started with a single call."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Graphed:
    """A function of tensors that stay where they are, to some results.

    The first call runs it as it is, which compiles its kernels; the second records it. Graphs
    that never run at the same time share a `pool` of memory: results are copies.
    """

    def __init__(self, function: Callable[[], tuple[Tensor, ...]], pool: Any) -> None:
        self._function = function
        self._pool = pool
        self._graph: torch.cuda.CUDAGraph | None = None
        self._results: tuple[Tensor, ...] | None = None

    def __call__(self) -> tuple[Tensor, ...]:
        if self._results is None:
            self._results = self._function()
            return self._results
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            # Another thread may be copying the next batches into pinned memory meanwhile.
            mode = "thread_local"
            with torch.cuda.graph(self._graph, pool=self._pool, capture_error_mode=mode):
                self._results = self._function()
        self._graph.replay()
        return tuple(result.clone() for result in self._results)
