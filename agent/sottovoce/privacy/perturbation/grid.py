"""The grid on which points on a sphere are released."""

import math

import numpy as np
from numpy.typing import NDArray


def sphere_exponent(dimension: int) -> int:
    """Return the exponent at which coordinates of 1/√D have 12 bits; rounding adds 2^-26 to an error of 1 or more."""
    return -12 - math.ceil(math.log2(dimension) / 2)


def length(values: NDArray[np.int64], exponent: int) -> float:
    """Return the L2 norm of an int64[D] vector on the grid with step 2**exponent."""
    return float(np.linalg.norm(values.astype(np.float64))) * 2.0**exponent


def slack(dimension: int, exponent: int) -> float:
    """Return twice the largest change in the L2 norm caused by rounding to the grid."""
    return math.sqrt(dimension) * 2.0**exponent
