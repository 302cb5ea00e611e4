"""Many ranges of numbers as one array."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def starts_of(sizes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Where each of some things begins that lie end to end."""
    return np.cumsum(sizes, dtype=np.int64) - sizes


def ranges(starts: NDArray[np.int64], sizes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """From each start so many numbers up, one range after the other."""
    return np.repeat(starts - starts_of(sizes), sizes) + np.arange(sizes.sum())
