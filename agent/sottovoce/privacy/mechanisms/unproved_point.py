"""Releases of unknown sensitivity, with the noise that a paper states or with none, charged an infinite cost."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.accounting.events import UnprovedRelease
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import MAX_SIGMA, DiscreteGaussianSampler

_EXPONENT = -24
_MAX_VALUE = 2.0**60


@dataclass(frozen=True, slots=True)
class UnprovedPoint:
    """Mechanism that releases a float64[P] vector of unknown sensitivity.

    Attributes:
        size: P, number of values in a release.
        sigma: standard deviation of the noise on each coordinate; 0 for no noise.
        name: the name under which a release is charged.
        exponent: the grid step is 2**exponent.
    """

    size: int
    sigma: float
    name: str
    exponent: int = _EXPONENT

    def event(self, units: Units) -> UnprovedRelease:
        """Return the infinite cost of a release to the units from which it is computed."""
        return UnprovedRelease(self.name, units)

    def apply(self, raw: NDArray[np.float64], noise: NoiseSource) -> NDArray[np.int64]:
        """See Mechanism.apply. Noise with a standard deviation of more than 2^26 steps is drawn on a coarser grid."""
        bounded = np.clip(np.nan_to_num(np.ldexp(raw, -self.exponent)), -_MAX_VALUE, _MAX_VALUE)
        units: NDArray[np.int64] = np.rint(bounded).astype(np.int64)
        sigma = round(min(math.ldexp(self.sigma, -self.exponent), _MAX_VALUE))
        if sigma == 0:
            return units
        shift = max(0, sigma.bit_length() - MAX_SIGMA.bit_length() + 1)
        noisy: NDArray[np.int64] = units + (DiscreteGaussianSampler(sigma >> shift, noise).draw(self.size) << shift)
        return noisy
