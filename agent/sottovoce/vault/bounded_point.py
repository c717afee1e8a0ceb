"""Vector whose sensitivity is known from a lemma, on a public grid, with discrete Gaussian noise."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.accounting.events import GaussianSum
from sottovoce.accounting.units import Units
from sottovoce.errors import PrivacyError
from sottovoce.vault.clipped_sum import min_sigma
from sottovoce.vault.discrete_gaussian import MAX_SIGMA, DiscreteGaussianSampler
from sottovoce.vault.noise import NoiseSource

_LARGEST = 2.0**15  # largest magnitude of a value in a release, before noise


@dataclass(frozen=True, slots=True)
class BoundedPoint:
    """Release of a float64[P] whose values for two neighbours differ by a known distance.

    Attributes:
        size: P.
        exponent: the grid step is 2**exponent.
        sensitivity_squared: squared L2 sensitivity after rounding, in squared units.
        sigma: the noise's standard deviation parameter, in units.
    """

    size: int
    exponent: int
    sensitivity_squared: int
    sigma: int

    def event(self, units: Units) -> GaussianSum:
        """Return the cost of a release for the units from which it was computed."""
        return GaussianSum(self.sensitivity_squared, self.sigma, units)

    def apply(self, raw: NDArray[np.float64], noise: NoiseSource) -> NDArray[np.int64]:
        """See Mechanism.apply. Rounding moves each value by half a unit at most, which the sensitivity accounts for."""
        units = np.rint(np.ldexp(raw, -self.exponent)).astype(np.int64)
        return units + DiscreteGaussianSampler(self.sigma, noise).draw(self.size)


def calibrate_point(*, distance: float, size: int, releases: int, epsilon: float, delta: float) -> BoundedPoint:
    """Return the least noise with which one unit can pay for `releases` such releases from (epsilon, delta).

    Args:
        distance: L2 sensitivity before rounding.
        size: P.
        releases: largest number of releases that a unit is ever in.
        epsilon: total ε.
        delta: total δ.

    Raises:
        PrivacyError: if the noise is outside the grid's range.
    """
    exponent = math.floor(math.log2(distance / (2**10 * math.sqrt(size))))
    sensitivity = math.ceil(math.ldexp(distance, -exponent) + math.sqrt(size))
    sigma = min_sigma(sensitivity * sensitivity, releases, epsilon, delta)
    if sigma > MAX_SIGMA or math.ldexp(_LARGEST, -exponent) > 2**52:
        raise PrivacyError(
            f"ε = {epsilon:g} over {releases} releases of {size} numbers needs more noise than the grid holds: "
            "raise privacy.epsilon or take fewer, larger batches"
        )
    return BoundedPoint(size, exponent, sensitivity * sensitivity, sigma)
