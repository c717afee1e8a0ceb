"""Starting values of parameters."""

import numpy as np
from numpy.typing import NDArray


def drawn(seed: int, size: int) -> NDArray[np.float64]:
    """Uniform numbers in [-1, 1), float64[size]: the generator's own words, the same in every version of numpy."""
    words = np.random.PCG64(seed).random_raw(size)
    return np.asarray(words >> np.uint64(11), dtype=np.float64) * 2.0**-52 - 1
