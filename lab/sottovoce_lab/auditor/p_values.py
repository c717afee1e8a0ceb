"""Compute p-values for observations under a stated law, without SciPy.

The p-values use the gamma distribution, Φ, and the largest gap between two distribution functions.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GRID = 1e-3
"""Upper limit of a grid step, as a fraction of the noise's scale."""

_TOLERANCE = 1e-17


def phi(x: float) -> float:
    """Return Φ(x), accurate in both tails."""
    return math.erfc(-x / math.sqrt(2)) / 2


def gamma_two_sided(x: float, shape: float, rounding: float = 0.0) -> float:
    """Return the two-sided p-value, twice the smaller tail, for x under Γ(shape, 1).

    Args:
        x: the observed value.
        shape: the shape.
        rounding: by how much x may be too small because noise lies on a grid, where it is sometimes exactly 0.
    """
    top = x + rounding
    below = 0.0 if top <= 0 else _lower_gamma(shape, top) if top < shape + 1 else 1 - _upper_gamma(shape, top)
    return min(1.0, 2 * min(below, gamma_above(x, shape)))


def normal_scale(z: Floats) -> float:
    """Return the two-sided p-value for the scale of independent standard normal z, which lie on a grid.

    Σz²/2 follows Γ(n/2, 1).
    """
    return gamma_two_sided(float(z @ z) / 2, z.size / 2, float((2 * np.abs(z) + GRID).sum()) * GRID / 2)


def gamma_above(x: float, shape: float) -> float:
    """Return P[X ≥ x] for a Γ(shape, 1) variable X."""
    if x <= 0:
        return 1.0
    return 1 - _lower_gamma(shape, x) if x < shape + 1 else _upper_gamma(shape, x)


def uniformity_p_value(cumulative: Floats) -> float:
    """Return a p-value for the hypothesis that the values F(x) are uniform.

    The p-value is Massart's (1990) bound 2 exp(-2nD²), where D is the largest gap to the uniform distribution.

    Args:
        cumulative: the values F(x), float64[n].
    """
    sorted_values, n = np.sort(cumulative), len(cumulative)
    positions = np.arange(n) / n
    distance = max(float((sorted_values - positions).max()), float((positions + 1 / n - sorted_values).max()))
    return min(1.0, 2 * math.exp(-2 * n * distance * distance))


def uniform_low_bits(integers: NDArray[np.int64], bits: int) -> float:
    """Return a p-value for the hypothesis that the lowest bits are uniform: χ² with 2^bits - 1 degrees of freedom."""
    counts = np.bincount((integers % (1 << bits)).ravel(), minlength=1 << bits)
    expected = integers.size / (1 << bits)
    return gamma_above(float(((counts - expected) ** 2).sum() / expected / 2), ((1 << bits) - 1) / 2)


def _lower_gamma(shape: float, x: float) -> float:
    """Return P[X ≤ x] from its power series, for x below shape + 1."""
    total = term = 1.0
    denominator = shape
    while term > _TOLERANCE * total:
        denominator += 1
        term *= x / denominator
        total += term
    return min(1.0, total * math.exp(shape * math.log(x) - x - math.lgamma(shape + 1)))


def _upper_gamma(shape: float, x: float) -> float:
    """Return P[X ≥ x] from its continued fraction (Lentz), for x of at least shape + 1."""
    b = x + 1 - shape
    c, d = 1e300, 1 / b
    fraction, n = d, 0
    while True:
        n += 1
        numerator, b = -n * (n - shape), b + 2
        d, c = 1 / (numerator * d + b), b + numerator / c
        fraction *= d * c
        if abs(d * c - 1) < 1e-15:
            return min(1.0, fraction * math.exp(shape * math.log(x) - x - math.lgamma(shape)))
