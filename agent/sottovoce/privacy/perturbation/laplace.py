"""Discrete Laplace noise on every coordinate of a record with L1 norm 1 (Hegedűs & Jelasity 2017, Section 3.1).

In grid units, a record's L1 norm is at most `unit`, an integer. Two records therefore differ by at most 2 · unit in
each noisy copy, and noise with scale s costs ε = 2 · unit · (noisy copies) / s.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from sottovoce.errors import PrivacyError
from sottovoce.privacy.perturbation.scheme import Floats, Moments, Values, copy_count, from_tensor, scaled, sums

_TAIL = 61.0  # t of the tail bound; slightly above the 60 of Scheme.emits, because the noise is on a grid
_MAX_SCALE = 2**54  # noise beyond 2^63 has a probability below e^-500


@dataclass(frozen=True, slots=True)
class LaplaceCopies:
    """The scheme from the paper, with a noisy copy y⁽ᵏ⁾x per class. Each costs ε/copies, so its scale is 2 copies/ε.

    Attributes:
        features: d.
        classes: c.
        epsilon: ε of the release.
    """

    features: int
    classes: int
    epsilon: float
    name: Literal["laplace-copies"] = "laplace-copies"
    norm: Literal["l1"] = "l1"

    def __post_init__(self) -> None:
        """Raise PrivacyError if the noise exceeds the range of the grid."""
        _check_scale(self.scale, self.epsilon)

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
    def sensitivity(self) -> int:
        """Return the largest L1 distance between two records' copies, in grid units."""
        return 2 * self.unit * self.copies

    @property
    def scale(self) -> int:
        """Return the noise scale in grid units, an integer with sensitivity / scale ≤ ε."""
        return math.ceil(self.sensitivity / Fraction(self.epsilon))

    @property
    def error(self) -> float:
        """See Scheme.error."""
        return _dense_norm_ratio(self.features) * _noise_variance(self) * self.features

    def emits(self, values: Values) -> bool:
        """Return whether the noise in the values is within the bound of `_is_plausible`. See Scheme.emits."""
        return _is_plausible(self, values)

    def decode(self, values: Values) -> Floats:
        """Return each released copy, rescaled to the units of x. See Scheme.decode."""
        return scaled(values, 2.0**self.exponent, self.features)

    def moments(self, values: Values) -> Moments:
        """Return the mean of q⁽ᵏ⁾q⁽ᵏ⁾ᵀ over the copies minus the noise variance. See Scheme.moments."""
        first, second = sums(values, self.features)
        step = 2.0**self.exponent
        second *= step * step / self.copies
        second.flat[:: self.features + 1] -= len(values) * _noise_variance(self)
        return Moments(first * step, second, len(values))


@dataclass(frozen=True, slots=True)
class Laplace:
    """A noisy tensor x ⊗ e_y (yx for two classes) with L1 norm 1; the scale is 2/ε for any number of classes.

    Attributes:
        features: d.
        classes: c.
        epsilon: ε of the release.
    """

    features: int
    classes: int
    epsilon: float
    name: Literal["laplace"] = "laplace"
    norm: Literal["l1"] = "l1"

    def __post_init__(self) -> None:
        """Raise PrivacyError if the noise exceeds the range of the grid."""
        _check_scale(self.scale, self.epsilon)

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
    def sensitivity(self) -> int:
        """Return the largest L1 distance between two records' tensors, in grid units."""
        return 2 * self.unit

    @property
    def scale(self) -> int:
        """Return the noise scale in grid units, an integer with sensitivity / scale ≤ ε."""
        return math.ceil(self.sensitivity / Fraction(self.epsilon))

    @property
    def error(self) -> float:
        """See Scheme.error; each estimate adds up the noise of all blocks."""
        return _dense_norm_ratio(self.features) * _noise_variance(self) * self.width

    def emits(self, values: Values) -> bool:
        """Return whether the noise in the values is within the bound of `_is_plausible`. See Scheme.emits."""
        return _is_plausible(self, values)

    def decode(self, values: Values) -> Floats:
        """See Scheme.decode."""
        return from_tensor(scaled(values, 2.0**self.exponent, self.features))

    def moments(self, values: Values) -> Moments:
        """Return Σ_k T_k T_kᵀ, an estimate of xxᵀ, minus the noise variance per block. See Scheme.moments."""
        first, second = sums(values, self.features)
        step = 2.0**self.exponent
        second *= step * step
        second.flat[:: self.features + 1] -= len(values) * self.copies * _noise_variance(self)
        return Moments(from_tensor(first * step), second, len(values))


def grid_exponent(features: int, epsilon: float) -> int:
    """Return an exponent at which rounding loses at most 2^-16 of a record and a 2/ε scale is at least 2^14 steps."""
    return -max(16 + math.ceil(math.log2(features)), 14 + math.ceil(math.log2(epsilon)))


def _is_plausible(scheme: "LaplaceCopies | Laplace", values: Values) -> bool:
    """Return whether the values satisfy the tail bound for a sum of D exponentials.

    The sum exceeds D + √(2Dt) + t scales with probability at most e^-t.
    """
    noise_bound = scheme.width + math.sqrt(2 * scheme.width * _TAIL) + _TAIL
    return float(np.abs(values.astype(np.float64)).sum()) <= scheme.unit * scheme.copies + noise_bound * scheme.scale


def _noise_variance(scheme: LaplaceCopies | Laplace) -> float:
    """Return the variance of discrete Laplace noise on the grid, 2r/(1 - r)² steps² with r = exp(-1/scale)."""
    steps = 0.5 / math.sinh(0.5 / scheme.scale) ** 2
    return math.ldexp(steps, 2 * scheme.exponent)


def _dense_norm_ratio(features: int) -> float:
    """Return ‖x‖₁²/‖x‖₂² for a high-dimensional Gaussian vector x, but at least 1."""
    return max(1.0, 2 * features / math.pi)


def _check_scale(scale: int, epsilon: float) -> None:
    if scale > _MAX_SCALE:
        raise PrivacyError(
            f"ε = {epsilon:g} for a record requires more noise than the grid allows; increase privacy.epsilon"
        )
