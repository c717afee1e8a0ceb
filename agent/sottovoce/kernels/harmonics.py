"""Harmonics for evenly spaced values, such as one value per half-hour of a day."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=8)
def harmonic_waves(width: int, count: int) -> NDArray[np.float64]:
    """Return an orthonormal basis of the level, then the cosine and sine of each of the first `count` frequencies.

    Args:
        width: the number of values in a row, more than 2 count.
        count: the number of frequencies.

    Returns:
        float64[1 + 2 count, width], read-only.
    """
    phases = 2 * np.pi * np.outer(np.arange(1, count + 1), np.arange(width)) / width
    waves = np.stack([np.cos(phases), np.sin(phases)], axis=1).reshape(-1, width)
    basis: NDArray[np.float64] = np.vstack([np.full(width, width**-0.5), waves * math.sqrt(2 / width)])
    basis.setflags(write=False)
    return basis
