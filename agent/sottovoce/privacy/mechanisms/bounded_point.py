"""Discrete Gaussian mechanism for a vector with a known L2 sensitivity, released on a public grid."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.mechanisms.clipped_sum import min_sigma
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import MAX_SIGMA, DiscreteGaussianSampler

_MAX_VALUE = 2.0**15  # largest magnitude of a released value before noise


@dataclass(frozen=True, slots=True)
class BoundedPoint:
    """Mechanism that releases a float64[P] vector with a known L2 sensitivity.

    Attributes:
        size: P, number of values in a release.
        exponent: the grid step is 2**exponent.
        sensitivity_squared: squared L2 sensitivity after rounding, in squared units.
        sigma: standard deviation parameter of the noise, in units.
    """

    size: int
    exponent: int
    sensitivity_squared: int
    sigma: int

    def event(self, units: Units) -> GaussianSum:
        """Return the cost of a release to the units from which it is computed."""
        return GaussianSum(self.sensitivity_squared, self.sigma, units)

    def apply(self, raw: NDArray[np.float64], noise: NoiseSource) -> NDArray[np.int64]:
        """See Mechanism.apply. Rounding moves each value by at most half a unit; the sensitivity allows for it."""
        units = np.rint(np.ldexp(raw, -self.exponent)).astype(np.int64)
        return units + DiscreteGaussianSampler(self.sigma, noise).draw(self.size)


def calibrate_point(*, distance: float, size: int, releases: int, epsilon: float, delta: float) -> BoundedPoint:
    """Return the mechanism with the least noise for which all releases together cost a unit at most (epsilon, delta).

    Args:
        distance: L2 sensitivity before rounding.
        size: P, number of values in a release.
        releases: largest number of releases to which a unit contributes.
        epsilon: total ε.
        delta: total δ.

    Raises:
        PrivacyError: if the noise is outside the grid's range.
    """
    exponent = math.floor(math.log2(distance / (2**10 * math.sqrt(size))))
    sensitivity = math.ceil(math.ldexp(distance, -exponent) + math.sqrt(size))
    sigma = min_sigma(sensitivity * sensitivity, releases, epsilon, delta)
    if sigma > MAX_SIGMA or math.ldexp(_MAX_VALUE, -exponent) > 2**52:
        raise PrivacyError(
            f"ε = {epsilon:g} over {releases} releases of {size} numbers requires more noise than the grid "
            "allows; increase privacy.epsilon, or use fewer, larger batches"
        )
    return BoundedPoint(size, exponent, sensitivity * sensitivity, sigma)
