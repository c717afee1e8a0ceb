"""A noise-free scheme that serves as a baseline for comparison."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sottovoce.privacy.perturbation.grid import length, slack
from sottovoce.privacy.perturbation.scheme import Floats, Moments, Values, copy_count, label_signs, scaled


@dataclass(frozen=True, slots=True)
class Exact:
    """A scheme that releases the label and x, scaled to L2 norm 1 and rounded to a fine grid; it hides nothing.

    Attributes:
        features: d.
        classes: c.
    """

    features: int
    classes: int
    name: Literal["exact"] = "exact"
    epsilon: None = None
    norm: Literal["l2"] = "l2"
    exponent: int = -30
    error: float = 0.0

    @property
    def copies(self) -> int:
        """See Scheme.copies."""
        return copy_count(self.classes)

    @property
    def width(self) -> int:
        """Return 1 + d."""
        return 1 + self.features

    def emits(self, values: Values) -> bool:
        """Return whether the values are a label and a rounded record of length at most 1. See Scheme.emits."""
        longest = 1 + slack(self.features, self.exponent)
        return 0 <= values[0] < self.classes and length(values[1:], self.exponent) <= longest

    def decode(self, values: Values) -> Floats:
        """Return y⁽ᵏ⁾x, float64[n, copies, d]. See Scheme.decode."""
        vectors = scaled(values[:, 1:], 2.0**self.exponent, self.features)
        return label_signs(values[:, 0], self.classes)[:, :, np.newaxis] * vectors

    def moments(self, values: Values) -> Moments:
        """See Scheme.moments."""
        vectors = scaled(values[:, 1:], 2.0**self.exponent, self.features)[:, 0]
        return Moments(label_signs(values[:, 0], self.classes).T @ vectors, vectors.T @ vectors, len(values))
