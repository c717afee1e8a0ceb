"""A scheme with randomised response on the label and PrivUnit on the features."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sottovoce.privacy.perturbation.cap import Cap, best_cap
from sottovoce.privacy.perturbation.grid import length, slack, sphere_exponent
from sottovoce.privacy.perturbation.priv_unit import debias
from sottovoce.privacy.perturbation.randomised_response import RandomisedLabel
from sottovoce.privacy.perturbation.scheme import Floats, Moments, Values, copy_count, scaled, sums


@dataclass(frozen=True, slots=True)
class LabelledPrivUnit:
    """Randomised response on the label at ε_y = min(ε/3, 4), and independently PrivUnit on x at ε - ε_y.

    Attributes:
        features: d.
        classes: c.
        epsilon: ε of both parts together.
    """

    features: int
    classes: int
    epsilon: float
    name: Literal["krr-privunit"] = "krr-privunit"
    norm: Literal["l2"] = "l2"

    @property
    def copies(self) -> int:
        """See Scheme.copies."""
        return copy_count(self.classes)

    @property
    def width(self) -> int:
        """Return 1 + d."""
        return 1 + self.features

    @property
    def label(self) -> RandomisedLabel:
        """Return the mechanism for the label."""
        return RandomisedLabel(self.classes, min(self.epsilon / 3, 4.0))

    @property
    def cap(self) -> Cap:
        """Return the mechanism for the features; its slack is a million times the rounding error of ε - ε_y."""
        return best_cap(self.features, self.epsilon - self.label.epsilon)

    @property
    def exponent(self) -> int:
        """See Scheme.exponent."""
        return sphere_exponent(self.features)

    @property
    def error(self) -> float:
        """See Scheme.error; the error is E (2 q_k - 1)² / m² - 1 because the two parts are independent."""
        return (1 + self.label.error) * (1 + self.cap.error) - 1

    def emits(self, values: Values) -> bool:
        """Return whether the values are a label and a rounded point on the sphere. See Scheme.emits."""
        deviation = abs(length(values[1:], self.exponent) - 1)
        return 0 <= values[0] < self.classes and deviation <= slack(self.features, self.exponent)

    def decode(self, values: Values) -> Floats:
        """Return (2 q_k - 1) z. See Scheme.decode."""
        vectors = scaled(values[:, 1:], 2.0**self.exponent / self.cap.mean, self.features)
        return self.label.decode(values[:, 0])[:, :, np.newaxis] * vectors

    def moments(self, values: Values) -> Moments:
        """See Scheme.moments; the estimate of xxᵀ uses only the vectors, not the labels."""
        cap, step = self.cap, 2.0**self.exponent
        signs = self.label.decode(values[:, 0])
        vectors = scaled(values[:, 1:], step / cap.mean, self.features)[:, 0]
        _, second = sums(values[:, 1:], self.features)
        return Moments(signs.T @ vectors, debias(second, cap, step, len(values)), len(values))
