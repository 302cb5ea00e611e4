"""A model's weights as an engine takes them: arrays, in float32 or in eight bits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCALE = ".scale"  # after the name of a matrix that is stored in eight bits

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Matrix:
    """A linear map, its outputs in rows."""

    rows: NDArray[Any]  # (n_out, n_in)
    scale: Floats | None  # (n_out,), of eight bits
    bias: Floats | None  # (n_out,)


class Weights:
    """Weights by name, however they are stored; eight bits have a scale a row beside them."""

    def __init__(self, stored: Mapping[str, NDArray[Any]]) -> None:
        self._stored = stored

    @property
    def are_in_eight_bits(self) -> bool:
        return any(name.endswith(SCALE) for name in self._stored)

    def vector(self, name: str) -> Floats:
        return np.ascontiguousarray(self._stored[name], dtype=np.float32)

    def matrix(self, names: Sequence[str], eight_bits: bool) -> Matrix:
        """The linear maps of these names as one, so that their outputs stand side by side."""
        rows, scales = zip(*(self._part(f"{name}.weight", eight_bits) for name in names), strict=True)
        biases = [self.vector(f"{name}.bias") for name in names if f"{name}.bias" in self._stored]
        return Matrix(
            np.ascontiguousarray(np.concatenate(rows)),
            np.concatenate(scales).ravel() if eight_bits else None,
            np.concatenate(biases) if biases else None,
        )

    def position_table(self, n_positions: int) -> Floats:
        """(n_positions, d_model): learned, or the sines and cosines of section 3.5."""
        if "positions.weight" in self._stored:
            return self._part("positions.weight", eight_bits=False)[0]
        d_model = self._stored["embedding.weight"].shape[1]
        frequencies = (10_000.0 ** -(np.arange(0, d_model, 2) / d_model)).astype(np.float32)
        angles = np.arange(n_positions, dtype=np.float32)[:, None] * frequencies
        return np.stack((np.sin(angles), np.cos(angles)), axis=-1).reshape(n_positions, d_model)

    def _part(self, name: str, eight_bits: bool) -> tuple[NDArray[Any], Floats]:
        rows, scale = self._stored[name], self._stored.get(name + SCALE)
        if scale is None:
            floats = rows.astype(np.float32, copy=False)
            return in_eight_bits(floats) if eight_bits else (floats, floats[:, :0])
        return (rows, scale) if eight_bits else (rows * scale, scale)


def in_eight_bits(matrix: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Whole numbers up to 127, and what they count in (n_out, 1): a scale a row."""
    scale = np.maximum(np.abs(matrix).max(axis=1, keepdims=True), np.float32(1e-12)) / 127
    return np.rint(matrix / scale).astype(np.int8), scale
