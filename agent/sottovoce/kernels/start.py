"""Initial parameter values."""

import numpy as np
from numpy.typing import NDArray


def uniform_values(seed: int, size: int) -> NDArray[np.float64]:
    """Return uniform values in [-1, 1), float64[size].

    They are computed from the generator's raw words, so every NumPy version returns the same values.
    """
    words = np.random.PCG64(seed).random_raw(size)
    return np.asarray(words >> np.uint64(11), dtype=np.float64) * 2.0**-52 - 1
