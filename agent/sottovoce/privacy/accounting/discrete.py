"""Privacy cost of integer noise: exact for one discrete Gaussian or discrete Laplace draw, a bound for vectors.

The discrete Gaussian with parameter σ has P[k] proportional to exp(-k²/2σ²) (Canonne, Kamath & Steinke 2020). Its δ can
exceed that of the continuous Gaussian. For a single number released from an integer query, summation gives the exact
charge. A vector is charged by the continuous closed form at variance σ² - 16
(docs/decisions/0003-discrete-gaussian.md).
"""

import math
from dataclasses import dataclass

import numpy as np

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.events import SMOOTHING_VARIANCE
from sottovoce.privacy.accounting.gaussian import gaussian_delta
from sottovoce.privacy.accounting.pairs import Vector, symmetric_profile

MAX_SUMMED_SIGMA = 2.0**14  # above this σ, the bound is as good as the sum, since 16 is only 6 parts in 10⁸ of σ²
_SUM_ERROR = 2.0**-36  # bound on the relative error of a sum of exponentials
_MIN_DELTA = 1e-320  # covers the tail beyond the sum, and underflow
_SUMMED_DEVIATIONS = 40.0  # standard deviations that the sum covers; the terms left out are less than 10⁻³⁴⁰ of it


def discrete_gaussian_delta(epsilon: float, sigma: float, sensitivity: int) -> float:
    """Return δ at ε for one draw added to an integer that changes by at most `sensitivity`, rounded up.

    The loss at k, for centre `sensitivity` versus centre 0, is (2k - sensitivity) sensitivity / 2σ². Only integers
    whose loss exceeds ε contribute, each with P[k] (1 - e^(ε - loss)). No term is negative, so no terms cancel.

    Raises:
        PrivacyError: if σ or the sensitivity is not positive.
    """
    if not 0 < sigma < math.inf or sensitivity < 1:
        raise PrivacyError("the discrete Gaussian requires a positive σ and a positive whole-number sensitivity")
    if sigma > MAX_SUMMED_SIGMA:
        return vector_delta(epsilon, sigma, sensitivity)
    # P[k ≥ m] grows with the distance for every m, so the largest distance is the worst case.
    two_variance = 2 * sigma * sigma
    first = math.floor(epsilon * sigma * sigma / sensitivity + sensitivity / 2)
    k = np.arange(first, first + math.ceil(_SUMMED_DEVIATIONS * sigma) + 3, dtype=np.float64)
    loss = (2 * k - sensitivity) * sensitivity / two_variance
    terms = np.exp(-((k - sensitivity) ** 2) / two_variance) * np.maximum(0.0, -np.expm1(epsilon - loss))
    positive_k = np.arange(1, math.ceil(_SUMMED_DEVIATIONS * sigma) + 1, dtype=np.float64)
    total = 1 + 2 * math.fsum(np.exp(-(positive_k**2) / two_variance))
    return min(1.0, math.fsum(terms) / total * (1 + _SUM_ERROR) + _MIN_DELTA)


def vector_delta(epsilon: float, sigma: float, sensitivity: float) -> float:
    """Return δ at ε for one draw per coordinate of an integer vector with L2 sensitivity `sensitivity`, rounded up."""
    variance = sigma * sigma * (1 - 2.0**-50) - SMOOTHING_VARIANCE
    return gaussian_delta(epsilon, sensitivity / math.sqrt(variance) * (1 + 2.0**-50)) if variance > 0 else 1.0


def discrete_laplace_epsilon(sensitivity: int, scale: float) -> float:
    """Return ε = sensitivity / scale, exact for P[k] proportional to exp(-|k| / scale); rounded up."""
    if not 0 < scale < math.inf or sensitivity < 1:
        raise PrivacyError(
            "the discrete Laplace distribution requires a positive scale and a positive whole-number sensitivity"
        )
    return math.nextafter(sensitivity / scale, math.inf)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Dominating pair for one draw, with σ ≤ MAX_SUMMED_SIGMA, added to an integer that changes by `sensitivity`."""

    sigma: float
    sensitivity: int

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """See pairs.Pair; the distribution is symmetric."""
        return symmetric_profile(self._above, epsilon)

    def _above(self, epsilon: Vector) -> tuple[Vector, Vector]:
        max_k = math.ceil(_SUMMED_DEVIATIONS * self.sigma) + self.sensitivity
        k = np.arange(-max_k, max_k + 1, dtype=np.float64)
        masses = np.exp(-(k**2) / (2 * self.sigma**2))
        tail = np.append(np.cumsum((masses / masses.sum())[::-1])[::-1], 0.0)  # P[k ≥ index - max_k]
        first = np.floor(np.minimum(epsilon * self.sigma**2 / self.sensitivity + self.sensitivity / 2, max_k)) + 1
        index = first.astype(np.int64) + max_k
        above = tail[np.maximum(index - self.sensitivity, 0)]
        below = tail[np.minimum(index, len(k))]
        return above - np.exp(epsilon) * below, above * (len(k) * 2.0**-52 + _SUM_ERROR)
