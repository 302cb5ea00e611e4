"""The native engine on the CPU, in float32 or in eight bits."""

import ctypes
import math
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.config import ModelConfig
from allyouneed.inference.compilation import NoLibrary, native_library
from allyouneed.inference.engine import Candidates, Ids
from allyouneed.inference.host_beams import HostBeams
from allyouneed.inference.layout import check_names, linears, norms
from allyouneed.shortlist import Shortlist
from allyouneed.text.tokenizer import BEGIN, END, PAD
from allyouneed.weights import Floats, Weights

_MULTIPLE = 16  # widths that every processor's vectors divide
_MOST_THREADS = 16  # unless told otherwise: narrow matrices have too little for more
_NO_MEMORY = "there is not enough memory; translate fewer texts at once"
_AT_ONCE = 250  # tokens to encode or to read: enough for fast products, few enough for the caches


def hindrance(config: ModelConfig) -> str | None:
    """Why there is no native engine here that takes a model of this shape; None if there is."""
    widths = (config.d_model, config.d_ff, config.d_k, config.d_v)
    if any(width % _MULTIPLE for width in widths):
        return f"the model's widths {widths} are not all multiples of {_MULTIPLE}"
    library = native_library()
    return library.why if isinstance(library, NoLibrary) else None


class FastEngine:
    """An `Engine`; one search at a time may use it, and holds `lock` meanwhile."""

    widest_beam = math.inf
    narrow_range = False  # whether numbers beyond 65,504 are infinite to it

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        *,
        eight_bits: bool,
        threads: int | None = None,
        shortlist: Shortlist | None = None,
    ) -> None:
        library = native_library()
        if isinstance(library, NoLibrary):
            raise RuntimeError(f"there is no native engine here: {library.why}")
        self.lock = threading.Lock()
        self.config = config
        self.eight_bits = eight_bits
        self._shortlist = shortlist
        # By a weak reference, or the engine's memory would stay until cycles are looked for.
        self.beams = HostBeams(weakref.proxy(self), shortlist)
        self._library = library
        widths = config.d_model, config.d_ff, config.n_heads, config.d_k, config.d_v
        depths = config.n_layers, config.decoder_layers
        sizes = np.array([config.vocab_size, *widths, *depths, PAD, BEGIN, END], dtype=np.int32)
        library.engine_new.restype = ctypes.c_void_p
        check_names(config, weights)
        n_threads = threads or min(_n_cores(), _MOST_THREADS)
        self._engine = ctypes.c_void_p(
            library.engine_new(_pointer(sizes), int(eight_bits), n_threads)
        )
        if not self._engine:
            raise MemoryError(_NO_MEMORY)
        # Not at the interpreter's exit, when a thread that is left behind may still be computing.
        weakref.finalize(self, library.engine_free, self._engine).atexit = False
        self._set_linears(weights)
        self._set_norms(weights)
        if shortlist is not None:
            always = shortlist.always
            self._call("set_shortlist", len(always), _pointer(always))
        is_learned = config.positions == "learned"
        shape = config.max_positions, config.d_model
        self._learned_positions = weights.floats("positions.weight", shape) if is_learned else None

    @property
    def name(self) -> str:
        bits = "int8" if self.eight_bits else "float32"
        return f"native {bits}" if self._shortlist is None else f"native {bits} with a shortlist"

    def reserve(self, n_slots: int, n_beams: int, longest_source: int, longest_target: int) -> None:
        most = self.config.max_length or math.inf
        assert max(longest_source, longest_target) <= most, f"the model knows {most} positions"
        self._positions = self._learned_positions  # kept here, where the native engine reads them
        if self._positions is None:
            self._positions = _sinusoids(max(longest_source, longest_target), self.config.d_model)
        self._longest_source = longest_source
        lengths = longest_source, longest_target
        self._call("reserve", n_slots, n_beams, *lengths, _pointer(self._positions))

    def encode(self, sources: Sequence[Ids], slots: Sequence[int]) -> None:
        for places in chunks([len(source) + 1 for source in sources]):
            ids = np.array([id_ for i in places for id_ in (*sources[i], END)], dtype=np.int32)
            lengths = np.array([len(sources[i]) + 1 for i in places], dtype=np.int32)
            into = np.array([slots[i] for i in places], dtype=np.int32)
            self._call("encode", len(places), _pointer(ids), _pointer(lengths), _pointer(into))

    def offer(self, slot: int, choices: NDArray[np.int32]) -> None:
        self._call("offer", slot, len(choices), _pointer(choices))

    def step(self, rows: NDArray[Any], origins: NDArray[np.int32], n_best: int) -> Candidates:
        ids = np.empty((len(rows), n_best), dtype=np.int32)
        log_probs = np.empty((len(rows), n_best), dtype=np.float32)
        answers = _pointer(ids), _pointer(log_probs)
        self._call("step", len(rows), _pointer(rows), _pointer(origins), n_best, *answers)
        return Candidates(ids, log_probs)

    def read(
        self, rows: NDArray[Any], origins: NDArray[np.int32], layer: int
    ) -> tuple[Floats, Floats]:
        """log P of the tokens that are forced to follow the rows (R,), and attention (R, S).

        That is the mean over the heads with which a decoder layer attends to the sources.
        """
        attention = np.zeros((len(rows), self._longest_source), dtype=np.float32)
        self._call("watch", layer, self._longest_source, _pointer(attention))
        try:
            _, log_probs = self.step(rows, origins, 1)
        finally:
            self._call("watch", -1, 0, None)
        return log_probs[:, 0], attention

    def _set_linears(self, weights: Weights) -> None:
        for number, linear in enumerate(linears(self.config)):
            matrix = weights.matrix(
                linear.outputs, linear.n_in, has_bias=linear.has_bias, eight_bits=self.eight_bits
            )
            arrays = matrix.rows, matrix.scale, matrix.bias
            self._call("set_linear", number, linear.n_out, linear.n_in, *map(_pointer, arrays))

    def _set_norms(self, weights: Weights) -> None:
        for number, name in enumerate(norms(self.config)):
            gain, bias = (
                weights.floats(f"{name}.{part}", (self.config.d_model,))
                for part in ("weight", "bias")
            )
            self._call("set_norm", number, _pointer(gain), _pointer(bias))

    def _call(self, name: str, *arguments: Any) -> None:
        if not getattr(self._library, f"engine_{name}")(self._engine, *arguments):
            raise MemoryError(_NO_MEMORY)


def _n_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Those that this process may use, where the system says so; a container may have a quota."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        used, period = map(int, quota.read_text(encoding="utf-8").split())
    except (OSError, ValueError):  # no container, or "max"
        return n
    return max(1, min(n, used // period))


def _pointer(array: NDArray[Any] | None) -> ctypes.c_void_p | None:
    return None if array is None else ctypes.c_void_p(array.ctypes.data)


def _sinusoids(n_positions: int, d_model: int) -> Floats:
    """Section 3.5: (n_positions, d_model)."""
    frequencies = (10_000.0 ** -(np.arange(0, d_model, 2) / d_model)).astype(np.float32)
    angles = np.arange(n_positions, dtype=np.float32)[:, None] * frequencies
    return np.stack((np.sin(angles), np.cos(angles)), axis=-1).reshape(n_positions, d_model)


def chunks(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Places in `lengths`, in order, as many at once as should be computed together."""
    chunk: list[int] = []
    for place, length in enumerate(lengths):
        if chunk and sum(lengths[other] for other in chunk) + length > _AT_ONCE:
            yield chunk
            chunk = []
        chunk.append(place)
    if chunk:
        yield chunk
