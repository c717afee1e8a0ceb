"""The grid on which a point of a sphere is released."""

import math


def sphere_exponent(dimension: int) -> int:
    """A coordinate, of size 1/√D, has 12 bits: rounding, done after the draw, adds 2^-26 to an error of 1 or more."""
    return -12 - math.ceil(math.log2(dimension) / 2)
