"""Weights as they are stored, in arrays: float32, or eight bits with a scale for each row.

No torch in here, which takes a second to load and which the fast engine does without.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from allyouneed.errors import CheckpointError

SCALE = ".scale"  # after the name of a matrix that is stored in eight bits
SMALLEST_SCALE = 1e-6  # below it half precision has few digits

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Matrix:
    """A linear map, its outputs in rows."""

    rows: NDArray[Any]  # (n_out, n_in)
    scale: Floats | None  # (n_out,), of eight bits
    bias: Floats | None  # (n_out,)


class Weights:
    """Weights by name, however they are stored."""

    def __init__(self, stored: Mapping[str, NDArray[Any]]) -> None:
        self._stored = stored

    @classmethod
    def open(cls, path: Path) -> "Weights":
        """Map a file into memory; what is asked for is read, and not kept."""
        try:
            return cls(_File(path))
        except FileNotFoundError:
            raise CheckpointError(f"{path.parent}: it has no {path.name}") from None
        except (OSError, safetensors.SafetensorError) as error:
            raise CheckpointError(f"{path}: damaged: {error}; copy it anew") from None

    @property
    def names(self) -> list[str]:
        return [name for name in self._stored if not name.endswith(SCALE)]

    @property
    def are_in_eight_bits(self) -> bool:
        return len(self.names) < len(self._stored)

    def floats(self, name: str, shape: tuple[int, ...] | None = None) -> Floats:
        """An array in float32, contiguous; where a shape is given, it has that one."""
        return np.ascontiguousarray(self._part(name, shape, eight_bits=False)[0])

    def matrix(
        self, outputs: Mapping[str, int], n_in: int, *, has_bias: bool, eight_bits: bool
    ) -> Matrix:
        """The linear maps of these names as one, so that their outputs stand side by side."""
        parts = [
            self._part(f"{name}.weight", (n_out, n_in), eight_bits)
            for name, n_out in outputs.items()
        ]
        return Matrix(
            np.concatenate([rows for rows, _ in parts]),
            np.concatenate([scale for _, scale in parts]).ravel() if eight_bits else None,
            np.concatenate([self.floats(f"{name}.bias", (n,)) for name, n in outputs.items()])
            if has_bias
            else None,
        )

    def _part(
        self, name: str, shape: tuple[int, ...] | None, eight_bits: bool
    ) -> tuple[NDArray[Any], Floats]:
        """Rows, and the scales of eight bits (n_out, 1)."""
        rows = self._checked(name, shape)
        if name + SCALE in self._stored:
            scale = self._checked(name + SCALE, (len(rows), 1)).astype(np.float32, copy=False)
            rows = rows.astype(np.int8, copy=False)
            return (rows, scale) if eight_bits else (rows * scale, scale)
        floats = rows.astype(np.float32, copy=False)
        return in_eight_bits(floats) if eight_bits else (floats, floats[:0])

    def _checked(self, name: str, shape: tuple[int, ...] | None) -> NDArray[Any]:
        """What is stored; those who compute with it rely on its shape, and that it is numbers."""
        array = self._stored[name]
        # Least and most are finite only if all are, and need no room, as `isfinite` of all would.
        if not np.isfinite([array.min(initial=0), array.max(initial=0)]).all():
            raise CheckpointError(
                f"{name} holds what is no number (NaN) or infinite, so these weights translate "
                "nothing; take an earlier checkpoint, or copy the file anew"
            )
        if shape is not None and array.shape != shape:
            raise CheckpointError(
                f"weights and settings disagree: {name} should have the shape {shape} and has "
                f"{array.shape}; copy both anew from one model"
            )
        return array


def in_eight_bits(matrix: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Whole numbers up to 127, and what they count in (n_out, 1): a scale a row.

    Scales are such as half precision has, in which they are stored.
    """
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    scale = np.maximum(largest / 127, SMALLEST_SCALE).astype(np.float16).astype(np.float32)
    return np.rint(matrix / scale).clip(-127, 127).astype(np.int8), scale


class _File(Mapping[str, NDArray[Any]]):
    """The arrays of a safetensors file, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _opened(path, "numpy")
        self._names: list[str] = list(self._file.keys())

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        if self._file.get_slice(name).get_dtype() == "BF16":  # which NumPy does not know
            return _opened(self._path, "pt").get_tensor(name).float().numpy()
        return self._file.get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _opened(path: Path, framework: str) -> Any:  # safetensors has no types
    return safetensors.safe_open(path, framework=framework)
