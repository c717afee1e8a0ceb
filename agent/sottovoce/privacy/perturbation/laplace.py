"""Discrete Laplace noise on every coordinate of a record with L1 norm 1 (Hegedűs & Jelasity 2017, Section 3.1).

In grid units, a record's L1 norm is at most `unit`, an integer. Two records therefore differ by at most 2 · unit in
each noisy copy, and noise with scale s costs ε = 2 · unit · (noisy copies) / s.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from typing_extensions import override

from sottovoce.errors import PrivacyError
from sottovoce.privacy.perturbation.scheme import Floats, Moments, Values, copy_count, from_tensor, scaled, sums

_TAIL = 61.0  # t of the tail bound; slightly above the 60 of Scheme.emits, because the noise is on a grid
_MAX_SCALE = 2**54  # noise beyond 2^63 has a probability below e^-500


@dataclass(frozen=True, slots=True)
class _GridLaplace(ABC):
    """A scheme that adds discrete Laplace noise on a grid; the subclasses differ in what a record releases.

    Attributes:
        features: d.
        classes: c.
        epsilon: ε of the release.
    """

    features: int
    classes: int
    epsilon: float

    def __post_init__(self) -> None:
        """Raise PrivacyError if the noise exceeds the range of the grid."""
        if self.scale > _MAX_SCALE:
            raise PrivacyError(
                f"ε = {self.epsilon:g} for a record requires more noise than the grid allows; increase privacy.epsilon"
            )

    @property
    def copies(self) -> int:
        """See Scheme.copies."""
        return copy_count(self.classes)

    @property
    def width(self) -> int:
        """Return copies × d."""
        return self.copies * self.features

    @property
    def exponent(self) -> int:
        """See Scheme.exponent."""
        return grid_exponent(self.features, self.epsilon)

    @property
    def unit(self) -> int:
        """Return L1 length 1 in grid units."""
        return 1 << -self.exponent

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """Return the largest L1 distance between two records' releases, in grid units."""

    @property
    def scale(self) -> int:
        """Return the noise scale in grid units, an integer with sensitivity / scale ≤ ε."""
        return math.ceil(self.sensitivity / Fraction(self.epsilon))

    @property
    def noise_variance(self) -> float:
        """Return the variance of discrete Laplace noise on the grid, 2r/(1 - r)² steps² with r = exp(-1/scale)."""
        steps = 0.5 / math.sinh(0.5 / self.scale) ** 2
        return math.ldexp(steps, 2 * self.exponent)

    def emits(self, values: Values) -> bool:
        """Return whether the values satisfy the tail bound for a sum of D exponentials. See Scheme.emits.

        The sum exceeds D + √(2Dt) + t scales with probability at most e^-t.
        """
        noise_bound = self.width + math.sqrt(2 * self.width * _TAIL) + _TAIL
        return float(np.abs(values.astype(np.float64)).sum()) <= self.unit * self.copies + noise_bound * self.scale


@dataclass(frozen=True, slots=True)
class LaplaceCopies(_GridLaplace):
    """The scheme from the paper, with a noisy copy y⁽ᵏ⁾x per class. Each costs ε/copies, so its scale is 2 copies/ε."""

    name: Literal["laplace-copies"] = "laplace-copies"
    norm: Literal["l1"] = "l1"

    @property
    @override
    def sensitivity(self) -> int:
        return 2 * self.unit * self.copies

    @property
    def error(self) -> float:
        """See Scheme.error."""
        return _dense_norm_ratio(self.features) * self.noise_variance * self.features

    def decode(self, values: Values) -> Floats:
        """Return each released copy, rescaled to the units of x. See Scheme.decode."""
        return scaled(values, 2.0**self.exponent, self.features)

    def moments(self, values: Values) -> Moments:
        """Return the mean of q⁽ᵏ⁾q⁽ᵏ⁾ᵀ over the copies minus the noise variance. See Scheme.moments."""
        first, second = sums(values, self.features)
        step = 2.0**self.exponent
        second *= step * step / self.copies
        second.flat[:: self.features + 1] -= len(values) * self.noise_variance
        return Moments(first * step, second, len(values))


@dataclass(frozen=True, slots=True)
class Laplace(_GridLaplace):
    """A noisy tensor x ⊗ e_y (yx for two classes) with L1 norm 1; the scale is 2/ε for any number of classes."""

    name: Literal["laplace"] = "laplace"
    norm: Literal["l1"] = "l1"

    @property
    @override
    def sensitivity(self) -> int:
        return 2 * self.unit

    @property
    def error(self) -> float:
        """See Scheme.error; each estimate adds up the noise of all blocks."""
        return _dense_norm_ratio(self.features) * self.noise_variance * self.width

    def decode(self, values: Values) -> Floats:
        """See Scheme.decode."""
        return from_tensor(scaled(values, 2.0**self.exponent, self.features))

    def moments(self, values: Values) -> Moments:
        """Return Σ_k T_k T_kᵀ, an estimate of xxᵀ, minus the noise variance per block. See Scheme.moments."""
        first, second = sums(values, self.features)
        step = 2.0**self.exponent
        second *= step * step
        second.flat[:: self.features + 1] -= len(values) * self.copies * self.noise_variance
        return Moments(from_tensor(first * step), second, len(values))


def grid_exponent(features: int, epsilon: float) -> int:
    """Return an exponent at which rounding loses at most 2^-16 of a record and a 2/ε scale is at least 2^14 steps."""
    return -max(16 + math.ceil(math.log2(features)), 14 + math.ceil(math.log2(epsilon)))


def _dense_norm_ratio(features: int) -> float:
    """Return ‖x‖₁²/‖x‖₂² for a high-dimensional Gaussian vector x, but at least 1."""
    return max(1.0, 2 * features / math.pi)
