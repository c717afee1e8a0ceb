"""k-ary randomised response for a label (Warner 1965; Kairouz, Oh & Viswanath 2014, Section 4.1)."""

import math
from dataclasses import dataclass

from sottovoce.privacy.perturbation.scheme import Floats, Values, label_signs

_WEIGHT = 2**32


@dataclass(frozen=True, slots=True)
class RandomisedLabel:
    """Randomised response that releases the true label with probability exactly `true_weight / total`.

    Every other label has probability exactly `other_weight / total`.

    Attributes:
        classes: c.
        epsilon: ε; the ratio of the two weights is at most e^ε.
    """

    classes: int
    epsilon: float

    @property
    def other_weight(self) -> int:
        """Return the weight of each wrong label."""
        return _WEIGHT

    @property
    def true_weight(self) -> int:
        """Return the weight of the true label, rounded down by more than the error of exp()."""
        return math.floor(_WEIGHT * math.exp(self.epsilon) * (1 - 2.0**-40))

    @property
    def total(self) -> int:
        """Return the sum of all weights."""
        return self.true_weight + (self.classes - 1) * self.other_weight

    @property
    def error(self) -> float:
        """Return 4 Var q_k, the variance of 2 q_k - 1 with expectation ±1, averaged over k."""
        p_true, p_other = self.true_weight / self.total, self.other_weight / self.total
        variance = (p_true * (1 - p_true) + (self.classes - 1) * p_other * (1 - p_other)) / self.classes
        return 4 * variance / (p_true - p_other) ** 2

    def decode(self, labels: Values) -> Floats:
        """Return the unbiased estimates 2 q_k - 1 of y⁽ᵏ⁾, with q_k = (1[label = k] - p_other)/(p_true - p_other).

        Args:
            labels: int64[n], as released.

        Returns:
            float64[n, copies]; with two classes, for class 1 only.
        """
        hits = label_signs(labels, self.classes) > 0
        signs: Floats = 2 * (hits * float(self.total) - self.other_weight) / (self.true_weight - self.other_weight) - 1
        return signs
