"""The grid on which a point of a sphere is released."""

import math

import numpy as np
from numpy.typing import NDArray


def sphere_exponent(dimension: int) -> int:
    """A coordinate, of size 1/√D, has 12 bits: rounding, done after the draw, adds 2^-26 to an error of 1 or more."""
    return -12 - math.ceil(math.log2(dimension) / 2)


def length(values: NDArray[np.int64], exponent: int) -> float:
    """The L2 length of a vector of int64[D] on the grid of 2**exponent."""
    return float(np.linalg.norm(values.astype(np.float64))) * 2.0**exponent


def slack(dimension: int, exponent: int) -> float:
    """Twice the largest change of a length by rounding to the grid."""
    return math.sqrt(dimension) * 2.0**exponent
