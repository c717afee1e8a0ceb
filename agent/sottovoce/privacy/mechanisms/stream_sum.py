"""Releases of a stream: weighted sums of clipped windows on a public grid, with discrete Gaussian noise."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import PrivacyError
from sottovoce.privacy.mechanisms.clipped_sum import DISTANCES, MAX_SQUARED_UNITS, min_sigma, squared_units
from sottovoce.privacy.mechanisms.clipping import clip_to_grid
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import MAX_SIGMA, DiscreteGaussianSampler

LaggedTotal = tuple[int, NDArray[np.float64]]
STREAM_BITS = 8  # bits per coefficient; with more bits, the noise would not fit on the grid


@dataclass(frozen=True, slots=True)
class StreamSum:
    """Mechanism for Σ_j c_j clip(x_{t-j}) with noise, in units of 2**exponent.

    Attributes:
        size: number of coordinates in a release, P.
        exponent: the grid step of a release is 2**exponent.
        coefficients: integers c_0, c_1, …, which represent the numbers c_j / 2**bits.
        bits: number of fractional bits in a coefficient.
        clip_squared: the largest squared L2 norm of one window's total, in squared steps of 2**(exponent + bits).
        sensitivity_squared: squared L2 sensitivity of all the stream's releases together to a change in one window.
        sigma: standard deviation parameter of the noise, in units.
    """

    size: int
    exponent: int
    coefficients: tuple[int, ...]
    bits: int
    clip_squared: int
    sensitivity_squared: int
    sigma: int

    def apply(self, raw: Iterator[LaggedTotal], noise: NoiseSource) -> NDArray[np.int64]:
        """See Mechanism.apply; `raw` yields each window's lag and total, float64[1, P]."""
        step = math.ldexp(1.0, self.exponent + self.bits)
        total = DiscreteGaussianSampler(self.sigma, noise).draw(self.size)
        for lag, row in raw:
            total += self.coefficients[lag] * clip_to_grid(row, step, self.clip_squared)[0].astype(np.int64)
        return total


def calibrate_stream(
    *,
    clip: float,
    size: int,
    coefficients: tuple[int, ...],
    bits: int,
    epsilon: float,
    delta: float,
    neighbouring: str,
) -> StreamSum:
    """Return the mechanism with the least noise for which all releases cost a window at most (epsilon, delta).

    Args:
        clip: L2 clip norm of a window's total.
        size: number of coordinates in a release.
        coefficients: c, scaled by 2**bits.
        bits: number of fractional bits in a coefficient.
        epsilon: total ε for a window.
        delta: total δ for a window.
        neighbouring: `add-remove` (a window is present or absent) or `replace-one` (twice the distance).

    Raises:
        PrivacyError: if an argument is invalid, or if the noise is outside the grid's range.
    """
    if not (math.isfinite(clip) and clip > 0 and size >= 1 and coefficients and neighbouring in DISTANCES):
        raise PrivacyError("the stream's clip norm, size, coefficients or neighbouring relation is missing or invalid")
    grid = math.floor(math.log2(clip / (2**8 * math.sqrt(size))))
    clip_squared = squared_units(clip, grid)
    norm_squared = sum(coefficient * coefficient for coefficient in coefficients)
    sensitivity_squared = DISTANCES[neighbouring] ** 2 * clip_squared * norm_squared
    sigma = min_sigma(sensitivity_squared, 1, epsilon, delta)
    if sigma > MAX_SIGMA or clip_squared > MAX_SQUARED_UNITS:
        raise PrivacyError(
            f"a stream of {size} numbers at ε = {epsilon:g} requires more noise than the grid allows; increase ε "
            "or publish fewer numbers"
        )
    return StreamSum(size, grid - bits, coefficients, bits, clip_squared, sensitivity_squared, sigma)
