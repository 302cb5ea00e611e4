"""Pairs of random ids."""

import numpy as np
from numpy.typing import NDArray


class RandomPairs:
    def __init__(self, n: int) -> None:
        self._rng = np.random.default_rng(0)
        self.lengths = self._rng.integers(2, 12, (n, 2)).astype(np.int32)
        self.spans = ((0, n, 1.0, 1),)
        self._ids = [self._rng.integers(4, 50, lengths.sum()) for lengths in self.lengths]

    def texts(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        sides = [np.split(self._ids[index], [self.lengths[index, 0]]) for index in indices]
        sources, targets = zip(*sides, strict=True)
        return np.concatenate(sources), np.concatenate(targets)
