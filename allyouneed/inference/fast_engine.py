"""The native engine on the CPU, in float32 or in eight bits."""

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allyouneed.config import ModelConfig
from allyouneed.inference.compilation import native_library
from allyouneed.inference.engine import Candidates, Ids
from allyouneed.inference.weights import Matrix, Weights
from allyouneed.text.tokenizer import BEGIN, END, PAD

_MULTIPLE = 16  # widths that every processor's vectors divide
_ENCODED_AT_ONCE = 1000  # tokens, which bounds the room that encoding takes


def can_run(config: ModelConfig) -> bool:
    """Whether there is a native engine here, and it takes a model of this shape."""
    widths = (config.d_model, config.d_ff, config.d_k, config.d_v)
    return not any(width % _MULTIPLE for width in widths) and native_library() is not None


class FastEngine:
    """An `Engine`; one search at a time may use it, and holds `lock` meanwhile."""

    def __init__(
        self, config: ModelConfig, weights: Weights, *, eight_bits: bool, threads: int | None = None
    ) -> None:
        library = native_library()
        if library is None:
            raise RuntimeError("there is no native engine here; ask `can_run` first")
        self.lock = threading.Lock()
        self.eight_bits = eight_bits
        self._library = library
        self._position_table = weights.position_table
        shape = np.array(
            [config.vocab_size, config.d_model, config.d_ff, config.n_heads, config.d_k]
            + [config.d_v, config.n_layers, config.decoder_layers, PAD, BEGIN, END],
            dtype=np.int32,
        )
        library.engine_new.restype = ctypes.c_void_p
        n_threads = threads or len(os.sched_getaffinity(0))
        self._engine = ctypes.c_void_p(
            library.engine_new(_pointer(shape), int(eight_bits), n_threads)
        )
        weakref.finalize(self, library.engine_free, self._engine)
        for number, matrix in enumerate(_linears(config, weights, eight_bits)):
            self._set_linear(number, matrix)
        for number, name in enumerate(_norms(config)):
            gain, bias = weights.vector(f"{name}.norm.weight"), weights.vector(f"{name}.norm.bias")
            library.engine_set_norm(self._engine, number, _pointer(gain), _pointer(bias))

    def reserve(
        self, n_slots: int, n_beams: int, longest_source: int, longest_target: int
    ) -> None:
        self._positions = self._position_table(max(longest_source, longest_target))
        self._call(
            "engine_reserve", n_slots, n_beams, longest_source, longest_target,
            _pointer(self._positions),
        )  # fmt: skip

    def encode(self, sources: Sequence[Ids], slots: Sequence[int]) -> None:
        for places in _chunks([len(source) + 1 for source in sources]):
            ids = np.array([id_ for i in places for id_ in (*sources[i], END)], dtype=np.int32)
            lengths = np.array([len(sources[i]) + 1 for i in places], dtype=np.int32)
            into = np.array([slots[i] for i in places], dtype=np.int32)
            self._call(
                "engine_encode", len(places), _pointer(ids), _pointer(lengths), _pointer(into)
            )

    def step(self, rows: NDArray[Any], origins: NDArray[np.int32], n_best: int) -> Candidates:
        ids = np.empty((len(rows), n_best), dtype=np.int32)
        log_probs = np.empty((len(rows), n_best), dtype=np.float32)
        self._call(
            "engine_step", len(rows), _pointer(rows), _pointer(origins), n_best, _pointer(ids),
            _pointer(log_probs),
        )  # fmt: skip
        return Candidates(ids, log_probs)

    def _set_linear(self, number: int, matrix: Matrix) -> None:
        n_out, n_in = matrix.rows.shape
        scale, bias = _pointer(matrix.scale), _pointer(matrix.bias)
        self._call("engine_set_linear", number, n_out, n_in, _pointer(matrix.rows), scale, bias)

    def _call(self, name: str, *arguments: Any) -> None:
        if not getattr(self._library, name)(self._engine, *arguments):
            raise MemoryError("there is not enough memory; translate fewer texts at once")


def _pointer(array: NDArray[Any] | None) -> ctypes.c_void_p | None:
    return None if array is None else ctypes.c_void_p(array.ctypes.data)


def _linears(config: ModelConfig, weights: Weights, eight_bits: bool) -> Iterator[Matrix]:
    """All matrices, in the order in which the native engine numbers them."""

    def joined(*names: str) -> Matrix:
        return weights.matrix(names, eight_bits)

    def own_attention(layer: str) -> Iterator[Matrix]:
        yield joined(*(f"{layer}.self_attention.w_{which}" for which in "qkv"))
        yield joined(f"{layer}.self_attention.w_o")

    def feed_forward(layer: str) -> Iterator[Matrix]:
        yield joined(f"{layer}.feed_forward.w_1")
        yield joined(f"{layer}.feed_forward.w_2")

    yield joined("embedding")
    for number in range(config.n_layers):
        yield from own_attention(f"encoder.layers.{number}")
        yield from feed_forward(f"encoder.layers.{number}")
    for number in range(config.decoder_layers):
        memory = f"decoder.layers.{number}.memory_attention"
        yield from own_attention(f"decoder.layers.{number}")
        yield joined(f"{memory}.w_q")
        yield joined(f"{memory}.w_k", f"{memory}.w_v")
        yield joined(f"{memory}.w_o")
        yield from feed_forward(f"decoder.layers.{number}")


def _norms(config: ModelConfig) -> Iterator[str]:
    for stack, n_layers, kinds in (
        ("encoder", config.n_layers, ("self_attention", "feed_forward")),
        ("decoder", config.decoder_layers, ("self_attention", "memory_attention", "feed_forward")),
    ):
        for number in range(n_layers):
            yield from (f"{stack}.layers.{number}.{kind}_norm" for kind in kinds)


def _chunks(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Places in `lengths`, in order, as many at once as may be encoded together."""
    chunk: list[int] = []
    for place, length in enumerate(lengths):
        if chunk and sum(lengths[other] for other in chunk) + length > _ENCODED_AT_ONCE:
            yield chunk
            chunk = []
        chunk.append(place)
    if chunk:
        yield chunk
