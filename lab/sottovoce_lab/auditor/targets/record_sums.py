"""The stated law of a sum of records, which a device releases before gradients over records that it has centred."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.privacy.vault import Budget

from sottovoce_lab.auditor.laws import RECORD_SUM_SHARE, GaussianLaw, claimed_mu

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RecordSumLaw:
    """The law of a sum of records [x, b] with |x| ≤ 1, float64[D + 1], whose last number counts the records.

    Attributes:
        bias: b.
        budget: the device's budget.
    """

    bias: float
    budget: Budget

    @property
    def clip(self) -> float:
        """The largest length of a record, √(1 + b²)."""
        return math.sqrt(1 + self.bias**2)

    @property
    def sigma(self) -> float:
        """σ of the sum, or the clip norm if the budget has no ε, for scoring the canaries."""
        if self.budget.epsilon is None:
            return self.clip
        return self.clip / (math.sqrt(RECORD_SUM_SHARE) * claimed_mu(self.budget))

    def p_values(self, features: Floats, released: Floats) -> dict[str, float]:
        """Return p-values for a released sum of these records."""
        exact = self._clipped(features).sum(axis=0)
        p_values = GaussianLaw(self.sigma).p_values(released[np.newaxis], exact[np.newaxis])
        return {f"sum of records, {test}": p for test, p in p_values.items()}

    def count_deviation(self, features: Floats, released: Floats) -> float:
        """Return the noise in a released count of these records, in units of σ."""
        return float(released[-1] - self._clipped(features)[:, -1].sum()) / self.sigma

    def scores(self, features: Floats, released: Floats) -> Floats:
        """Return the log density ratio of presence to absence for each of these orthogonal records, float64[n]."""
        rows = self._clipped(features)
        ratios: Floats = (rows @ released - (rows**2).sum(axis=1) / 2) / self.sigma**2
        return ratios

    def centre(self, features: Floats, mean: Floats) -> Floats:
        """Return the records [x, y] centred by a mean m of length below 1, [(x - m y/b)/√(1 - |m|²), y]."""
        centred = features.copy()
        centred[:, :-1] -= features[:, -1:] / self.bias * mean
        centred[:, :-1] /= math.sqrt(1 - float(mean @ mean))
        return centred

    def _clipped(self, features: Floats) -> Floats:
        lengths = np.sqrt((features**2).sum(axis=1, keepdims=True))
        rows: Floats = features * np.minimum(1.0, self.clip / np.maximum(lengths, self.clip))
        return rows
