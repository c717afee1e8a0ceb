"""Compute the errors of published prefix sums, for comparing factorisations."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sottovoce.privacy.accounting.streams import Kind, coefficients


def largest_error(kind: Kind, steps: int, band: int | None = None) -> float:
    """Return the largest standard deviation of any prefix sum, for μ = 1 and one reading that changes by 1."""
    whole = coefficients(kind, min(band or steps, steps))
    rows = np.cumsum(_inverse(whole, steps))
    return math.sqrt(sum(value * value for value in whole)) * math.sqrt(math.fsum(rows**2))


def _inverse(whole: Sequence[int], steps: int) -> NDArray[np.float64]:
    """Return the first column of C⁻¹, float64[steps]."""
    c = np.asarray(whole[1:], dtype=np.float64)
    column = np.zeros(steps)
    column[0] = 1 / whole[0]
    for t in range(1, steps):
        previous = column[max(0, t - len(c)) : t][::-1]
        column[t] = -float(c[: len(previous)] @ previous) / whole[0]
    return column
