"""Step sizes that shrink when gradients vary from step to step, as they do when a fleet oscillates.

A step size that suits one data set is far too long for another, whose records differ along few directions: models then
swing from side to side, and more so the less noise there is. The sum of squared differences between successive
gradients shows this, as in the step sizes of optimistic methods (Rakhlin & Sridharan 2013; Kavis et al. 2019). Their
lengths do not: where devices differ, each device's gradients stay long at the best model for all.

The rule reads only the device's own releases, so it costs no privacy. The part of the sum that is due to noise is
subtracted, plus three standard deviations, so that noise alone hardly ever shortens a step.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_DEVIATIONS = 3.0
_HALVES = 3.0
"""Variation at which steps are half as long: a few swings of full length."""


@dataclass(frozen=True, slots=True)
class Damping:
    """Rule that divides γ_t by 1 + V_t/3, where V_t is the sum of ½ ‖g_s - g_{s-1}‖² over the device's releases so far.

    Lengths are measured in B C, the length of a sum of B clipped gradients that all point the same way.

    Attributes:
        longest: B C, in units of a release.
        noise: σ, the standard deviation of the noise on each coordinate of a release.
    """

    longest: float
    noise: float

    def add(self, variation: float, last: NDArray[np.float64], release: NDArray[np.float64]) -> float:
        """Return the variation with one more difference, in (B C)².

        Args:
            variation: the sum so far, in (B C)².
            last: float64[P], the release before.
            release: float64[P], the newest release.
        """
        difference = (release - last) / self.longest
        return variation + float(difference @ difference) / 2

    def factor(self, variation: float, differences: int, size: int) -> float:
        """Return the factor on γ, at most 1, after a number of differences between releases of P numbers each."""
        numbers = differences * size
        by_noise = (numbers + _DEVIATIONS * math.sqrt(3 * numbers)) * (self.noise / self.longest) ** 2
        return 1 / (1 + max(0.0, variation - by_noise) / _HALVES)
