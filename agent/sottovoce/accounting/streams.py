"""Prefix sums of a stream with less noise, by matrix factorisations A = B C.

The release is y = C x + z with independent noise z. The prefix sums A x are then computed as B y, at no further privacy
cost. Changing one reading by 1 moves C x by the norm of a column of C. C is lower triangular Toeplitz with coefficients
c_0, c_1, …, truncated after `band` of them. For `independent`, c = 1 (C = I). For `square-root`, c_k =
binom(2k, k) / 4^k, from the series of (1 - z)^(-1/2) (Fichtenberger, Henzinger & Upadhyay 2023). With k participations
that are at least `band` apart, the sensitivity is sqrt(k) times as large (Choquette-Choo et al. 2023). The binary tree
is included for comparison (Dwork, Naor, Pitassi & Rothblum 2010).

For integer releases, the coefficients are also integers, ⌊c_k · 2^bits⌋, and y is in units of 2^-bits.
"""

import math
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
    found, exact = [], 1 << (bits + _GUARD_BITS)
    for k in range(band):
        exact = exact * (2 * k - 1) // (2 * k) if k else exact
        found.append(exact >> _GUARD_BITS)
    return tuple(found)


def sensitivity_squared(whole: Sequence[int], bound: int, participations: int = 1) -> int:
    """Return the largest squared L2 distance by which C x can change, in squared units.

    Args:
        whole: integer coefficients.
        bound: largest change in one reading.
        participations: number of readings that change; they are at least len(whole) apart.
    """
    return participations * bound * bound * sum(value * value for value in whole)


def encode(readings: Sequence[int], whole: Sequence[int]) -> list[int]:
    """Return the exact values C x, to which noise is then added."""
    return [sum(c * readings[t - k] for k, c in enumerate(whole[: t + 1])) for t in range(len(readings))]


def decode(released: Sequence[int], whole: Sequence[int]) -> NDArray[np.float64]:
    """Return the prefix sums in the units of the readings, float64[T], from y = C x + z.

    The function solves C x̂ = y by forward substitution; the running sums of x̂ are B y.
    """
    c = np.asarray(whole[1:], dtype=np.float64)
    guessed = np.zeros(len(released))
    for t, value in enumerate(released):
        known = guessed[max(0, t - len(c)) : t][::-1]
        guessed[t] = (value - float(c[: len(known)] @ known)) / whole[0]
    return np.cumsum(guessed)


def largest_error(kind: Kind, steps: int, band: int | None = None, participations: int = 1) -> float:
    """Return the largest standard deviation of any prefix sum, for μ = 1 and readings that change by 1.

    Args:
        kind: kind of factorisation.
        steps: T.
        band: number of coefficients used; None for all.
        participations: see sensitivity_squared.
    """
    whole = coefficients(kind, min(band or steps, steps))
    rows = np.cumsum(_inverse(whole, steps))
    sensitivity = math.sqrt(sensitivity_squared(whole, 1, participations))
    return sensitivity * math.sqrt(math.fsum(rows**2))


def tree_error(steps: int) -> float:
    """Return the error of a binary tree with each reading in one node per level and one node summed per set bit."""
    levels = (steps - 1).bit_length() + 1
    nodes = max((prefix | ((1 << bit) - 1)).bit_count() for prefix, bit in _binary_prefixes(steps))
    return math.sqrt(levels * nodes)


def _binary_prefixes(steps: int) -> list[tuple[int, int]]:
    """Return binary prefixes of `steps`, each with the number of lower bits that may be set without exceeding it."""
    lower = [((steps >> bit) - 1 << bit, bit) for bit in range(steps.bit_length()) if steps >> bit & 1]
    return [(steps, 0), *lower]


def _inverse(whole: Sequence[int], steps: int) -> NDArray[np.float64]:
    """Return the first column of C⁻¹, float64[steps]."""
    c = np.asarray(whole[1:], dtype=np.float64)
    found = np.zeros(steps)
    found[0] = 1 / whole[0]
    for t in range(1, steps):
        known = found[max(0, t - len(c)) : t][::-1]
        found[t] = -float(c[: len(known)] @ known) / whole[0]
    return found
