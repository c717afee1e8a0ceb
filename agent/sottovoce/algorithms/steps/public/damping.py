"""Step sizes that shrink when gradients vary from step to step, which happens when a fleet oscillates.

A step size that suits one data set is far too long for another whose records differ along few directions: models swing
from side to side, and the less noise there is, the more they swing. The sum of squared differences between successive
gradients reveals this, as in the step sizes of optimistic methods (Rakhlin & Sridharan 2013; Kavis et al. 2019). The
gradients' lengths do not: if devices differ, each device's gradients stay long even at the best common model.

The rule uses only the device's own releases, so it costs no privacy. The noise's share of the sum is subtracted, plus
three standard deviations, so that noise alone hardly ever shortens a step.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_DEVIATIONS = 3.0
_HALVING_VARIATION = 3.0
"""Variation at which steps are half as long, which corresponds to a few swings of full length."""


@dataclass(frozen=True, slots=True)
class Damping:
    """Divides γ_t by 1 + V_t/3, where V_t is the sum of ½ ‖g_s - g_{s-1}‖² over the device's releases so far.

    Lengths are measured in B C, the length of a sum of B clipped gradients that all point in the same direction.

    Attributes:
        longest: B C, in release units.
        noise: σ, the standard deviation of the noise on each coordinate of a release.
    """

    longest: float
    noise: float

    def add(self, variation: float, previous: NDArray[np.float64], release: NDArray[np.float64]) -> float:
        """Return the variation after adding one difference, in (B C)².

        Args:
            variation: the sum so far, in (B C)².
            previous: float64[P], the previous release.
            release: float64[P], the newest release.
        """
        difference = (release - previous) / self.longest
        return variation + float(difference @ difference) / 2

    def factor(self, variation: float, differences: int, size: int) -> float:
        """Return the factor on γ, at most 1, after `differences` differences between releases with `size` numbers."""
        numbers = differences * size
        noise_share = (numbers + _DEVIATIONS * math.sqrt(3 * numbers)) * (self.noise / self.longest) ** 2
        return 1 / (1 + max(0.0, variation - noise_share) / _HALVING_VARIATION)
