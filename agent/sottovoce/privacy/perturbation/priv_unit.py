"""PrivUnit on the whole record, with direction and label drawn together from one sphere."""

from dataclasses import dataclass
from typing import Literal

from sottovoce.privacy.perturbation.cap import Cap, best_cap
from sottovoce.privacy.perturbation.grid import length, slack, sphere_exponent
from sottovoce.privacy.perturbation.scheme import Floats, Moments, Values, copy_count, from_tensor, scaled, sums


@dataclass(frozen=True, slots=True)
class PrivUnit:
    """PrivUnit on the tensor x ⊗ e_y with L2 norm 1 (yx for two classes), on the sphere of ℝᴰ, D = copies × d.

    Attributes:
        features: d.
        classes: c.
        epsilon: ε of the release.
    """

    features: int
    classes: int
    epsilon: float
    name: Literal["privunit"] = "privunit"
    norm: Literal["l2"] = "l2"

    @property
    def copies(self) -> int:
        """See Scheme.copies."""
        return copy_count(self.classes)

    @property
    def width(self) -> int:
        """Return D = copies × d."""
        return self.copies * self.features

    @property
    def cap(self) -> Cap:
        """Return the cap on the sphere of ℝᴰ."""
        return best_cap(self.width, self.epsilon)

    @property
    def exponent(self) -> int:
        """See Scheme.exponent."""
        return sphere_exponent(self.width)

    @property
    def error(self) -> float:
        """See Scheme.error; a sum of blocks with signs ±1 has the same error as the tensor itself."""
        return self.cap.error

    def emits(self, values: Values) -> bool:
        """Return whether the values are a rounded point on the sphere. See Scheme.emits."""
        return abs(length(values, self.exponent) - 1) <= slack(self.width, self.exponent)

    def decode(self, values: Values) -> Floats:
        """See Scheme.decode."""
        return from_tensor(scaled(values, 2.0**self.exponent / self.cap.mean, self.features))

    def moments(self, values: Values) -> Moments:
        """See Scheme.moments; uses E Σ_k V_k V_kᵀ = copies (1 - γm)/D · I + γm · xxᵀ, where copies/D = 1/d."""
        cap, step = self.cap, 2.0**self.exponent
        first, second = sums(values, self.features)
        return Moments(from_tensor(first * (step / cap.mean)), debias(second, cap, step, len(values)), len(values))


def debias(second: Floats, cap: Cap, step: float, count: int) -> Floats:
    """Return an estimate of Σ xxᵀ, float64[d, d], from Σ VVᵀ over all blocks of `count` releases, in grid steps."""
    features = len(second)
    estimate: Floats = second * (step * step / cap.share)
    estimate.flat[:: features + 1] -= count * (1 / cap.share - 1) / features
    return estimate
