"""Noise on the integers: the exact privacy of one discrete Gaussian or discrete Laplace draw, and the bound for vectors.

The discrete Gaussian of parameter σ has P[k] proportional to exp(-k²/2σ²) (Canonne, Kamath & Steinke 2020). Its δ can
lie above the continuous one's. One number released from an integer query is charged exactly, by summation; a vector of
them by the continuous closed form at variance σ² - 16 (docs/decisions/0003-discrete-gaussian.md).
"""

import math

import numpy as np

from sottovoce.accounting.events import SMOOTHING_VARIANCE
from sottovoce.accounting.gaussian import gaussian_delta
from sottovoce.errors import PrivacyError

LARGEST_SUMMED = 2.0**14  # above this σ the bound is as good as the sum: 16 is 6 parts in 10⁸ of σ²
_REACH = 40.0  # standard deviations that a sum goes on for: what follows is below 10⁻³⁴⁰ of it


def discrete_gaussian_delta(epsilon: float, sigma: float, sensitivity: int) -> float:
    """δ at ε of one draw added to an integer that moves by at most `sensitivity`, rounded up.

    The loss at k, of centre `sensitivity` against centre 0, is (2k - sensitivity) sensitivity / 2σ². Only integers
    where it exceeds ε count, each with P[k] (1 - e^(ε - loss)): no term is negative, nothing cancels.

    Raises:
        PrivacyError: σ or the sensitivity is not positive.
    """
    if not 0 < sigma < math.inf or sensitivity < 1:
        raise PrivacyError("the discrete Gaussian needs a positive σ and a positive whole sensitivity: choose these")
    if sigma > LARGEST_SUMMED:
        return vector_delta(epsilon, sigma, sensitivity)
    worst = 0.0
    # The distance may be any up to the sensitivity; for a small σ the largest need not be the worst.
    for distance in range(1, sensitivity + 1) if sensitivity <= 4 * sigma + 4 and sigma < 2 else (sensitivity,):
        worst = max(worst, _delta(epsilon, sigma, distance))
    return worst


def vector_delta(epsilon: float, sigma: float, sensitivity: float) -> float:
    """δ at ε of a draw on each coordinate of an integer vector that moves by at most `sensitivity` in L2, rounded up."""
    variance = sigma * sigma * (1 - 2.0**-50) - SMOOTHING_VARIANCE
    return gaussian_delta(epsilon, sensitivity / math.sqrt(variance) * (1 + 2.0**-50)) if variance > 0 else 1.0


def discrete_laplace_epsilon(sensitivity: int, scale: float) -> float:
    """ε = sensitivity / scale, exactly, of P[k] proportional to exp(-|k| / scale); rounded up."""
    if not 0 < scale < math.inf or sensitivity < 1:
        raise PrivacyError("the discrete Laplace law needs a positive scale and a positive whole sensitivity: choose these")
    return math.nextafter(sensitivity / scale, math.inf)


def _delta(epsilon: float, sigma: float, distance: int) -> float:
    double = 2 * sigma * sigma
    first = math.floor(epsilon * sigma * sigma / distance + distance / 2)
    k = np.arange(first, first + math.ceil(_REACH * sigma) + 3, dtype=np.float64)
    loss = (2 * k - distance) * distance / double
    terms = np.exp(-((k - distance) ** 2) / double) * np.maximum(0.0, -np.expm1(epsilon - loss))
    half = np.arange(1, math.ceil(_REACH * sigma) + 1, dtype=np.float64)
    total = 1 + 2 * math.fsum(np.exp(-(half**2) / double))
    return min(1.0, math.fsum(terms) / total * (1 + 2.0**-36) + 1e-320)
