"""Step sizes that shrink as gradients add up: AdaGrad-Norm (Ward, Wu & Bottou 2019), less the part of the noise.

A step size that suits one data set is far too long for another, whose records differ along few directions: the fleet
oscillates, and more so the less noise there is. Under this rule, gradients that stay long shorten the steps. The rule
reads nothing but the device's own releases, so it costs no privacy.

Noise makes releases long too. Its expected part is subtracted, and three standard deviations more, so that noise alone
shortens hardly any step.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_DEVIATIONS = 3.0


@dataclass(frozen=True, slots=True)
class AdaGradNorm:
    """Rule that divides γ_t by √(1 + S_t), where S_t sums the squared lengths of the device's gradients so far.

    Lengths are measured in B C, the length of a sum of B clipped gradients that all point the same way.

    Attributes:
        longest: B C, in units of a release.
        noise: σ, the standard deviation of the noise on each coordinate of a release.
    """

    longest: float
    noise: float

    def add(self, squares: float, value: NDArray[np.int64], step: float) -> float:
        """Return the sum of squared lengths of releases, with one more; the same number on every machine.

        Args:
            squares: the sum so far, in (B C)².
            value: int64[P], the release on its grid.
            step: the grid's step.
        """
        numbers = value.astype(object)  # whole numbers of any size: exact, whatever the order of the sum
        return squares + float(numbers @ numbers) * (step / self.longest) ** 2

    def factor(self, squares: float, releases: int, size: int) -> float:
        """Return the factor on γ after a number of releases of P numbers each, at most 1."""
        numbers = releases * size
        by_noise = (numbers + _DEVIATIONS * math.sqrt(2 * numbers)) * (self.noise / self.longest) ** 2
        return 1 / math.sqrt(1 + max(0.0, squares - by_noise))
