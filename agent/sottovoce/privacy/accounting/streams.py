"""Prefix sums of a stream by matrix factorisations A = B C, which can add less noise than noising every reading.

The release is y = C x + z with independent noise z. The prefix sums A x are then computed as B y, at no further privacy
cost. Changing one reading by 1 moves C x by the norm of a column of C. C is lower triangular Toeplitz with coefficients
c_0, c_1, …, truncated after `band` of them. For `independent`, c = 1 (C = I). For `square-root`, c_k =
binom(2k, k) / 4^k, from the series of (1 - z)^(-1/2) (Fichtenberger, Henzinger & Upadhyay 2023).

For integer releases, the coefficients are also integers, ⌊c_k · 2^bits⌋, and y is in units of 2^-bits.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import PrivacyError

Kind = Literal["independent", "square-root"]

UNIT_BITS = 16
_GUARD_BITS = 80


def coefficients(kind: Kind, band: int, bits: int = UNIT_BITS) -> tuple[int, ...]:
    """Return ⌊c_k · 2^bits⌋ for k < band.

    Raises:
        PrivacyError: if `kind` is unknown or `band` is below 1.
    """
    if band < 1:
        raise PrivacyError("a factorisation requires a band of at least 1; set the number of readings in each release")
    if kind == "independent":
        return (1 << bits,)
    if kind != "square-root":
        raise PrivacyError(f"unknown factorisation {kind}; use independent or square-root")
    values, exact = [], 1 << (bits + _GUARD_BITS)
    for k in range(band):
        exact = exact * (2 * k - 1) // (2 * k) if k else exact
        values.append(exact >> _GUARD_BITS)
    return tuple(values)


def decode(released: Sequence[int], coefficients: Sequence[int]) -> NDArray[np.float64]:
    """Return the prefix sums in the units of the readings, float64[T], from y = C x + z.

    The function solves C x̂ = y by forward substitution; the running sums of x̂ are B y.
    """
    c = np.asarray(coefficients[1:], dtype=np.float64)
    estimates = np.zeros(len(released))
    for t, value in enumerate(released):
        earlier = estimates[max(0, t - len(c)) : t][::-1]
        estimates[t] = (value - float(c[: len(earlier)] @ earlier)) / coefficients[0]
    return np.cumsum(estimates)
