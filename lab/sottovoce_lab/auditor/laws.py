"""The stated laws of releases, which the auditor computes from public parameters alone.

A law is the distribution of float64[n, P] releases whose exact values are known. The auditor has its own implementation
of each law and uses none of the vault's code, because a faulty vault would otherwise be checked against its own rule.
The grid steps are finer than a thousandth of the noise (GRID), so continuous laws are accurate enough.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import InternalError
from sottovoce.privacy.accounting.gaussian import gaussian_mu
from sottovoce.privacy.perturbation import Cap, RandomisedLabel
from sottovoce.privacy.vault import Budget

from sottovoce_lab.auditor.binomial import two_sided_p_value
from sottovoce_lab.auditor.p_values import GRID, gamma_above, gamma_two_sided, normal_scale, phi, uniformity_p_value

Floats = NDArray[np.float64]

RECORD_SUM_SHARE = 0.15
"""Share of the budget's μ² that a sum of records may cost; the gradients after it have the rest (decision 53)."""


def claimed_mu(budget: Budget) -> float:
    """Return μ for the Gaussian mechanism that spends the whole budget, by the analytic formula (Balle & Wang 2018).

    Raises:
        InternalError: if the budget has no finite ε.
    """
    if budget.epsilon is None:
        raise InternalError("the audit computes σ from ε, but this budget has no ε: this is a bug; please report it")
    return gaussian_mu(budget.epsilon, budget.delta)


class Law(Protocol):
    """The distribution of a release, given its exact value."""

    def p_values(self, values: Floats, exact: Floats) -> dict[str, float]:
        """Return a p-value for each test, keyed by test name. Both too much and too little noise contradict the law.

        Args:
            values: the releases, float64[n, P].
            exact: the exact values before noise, float64[n, P].
        """
        ...

    @property
    def hit_probability(self) -> float:
        """The probability of the highest score in a coordinate group, if the first of two distant values is true."""
        ...

    def score(self, values: Floats, first: Floats, second: Floats) -> Floats:
        """Return the log density ratio of `first` to `second`, float64[n]. All arguments are float64[n, P]."""
        ...


@dataclass(frozen=True, slots=True)
class GaussianLaw:
    """Independent Gaussian noise N(0, σ²) on each coordinate.

    Attributes:
        sigma: σ, in the release's units.
    """

    sigma: float

    def p_values(self, values: Floats, exact: Floats) -> dict[str, float]:
        """Return the p-values; see Law.p_values."""
        z = (values - exact).ravel() / self.sigma
        return {
            "scale": normal_scale(z),
            "shape": uniformity_p_value(np.array([phi(x) for x in z.tolist()])),
            "largest": min(1.0, 2 * z.size * phi(-float(np.abs(z).max()))),
        }

    def score(self, values: Floats, first: Floats, second: Floats) -> Floats:
        """Return the log density ratios; see Law.score."""
        second_distance, first_distance = ((values - second) ** 2).sum(axis=1), ((values - first) ** 2).sum(axis=1)
        ratios: Floats = (second_distance - first_distance) / (2 * self.sigma**2)
        return ratios


@dataclass(frozen=True, slots=True)
class MaxNormLaw:
    """Noise with density ∝ exp(-max|zᵢ|/s) on each group of c coordinates; the Laplace law for c = 1.

    Attributes:
        scale: s, in the release's units.
        length: c, the group size; coordinate i of group j is coordinate i · P/c + j of the release.
    """

    scale: float
    length: int = 1

    @property
    def hit_probability(self) -> float:
        """The probability of the highest score; see Law.hit_probability."""
        return 0.5

    def p_values(self, values: Floats, exact: Floats) -> dict[str, float]:
        """Return the p-values, using that the radii max|zᵢ| follow Γ(c, s); see Law.p_values."""
        residuals = self._groups(values - exact)
        radii = (np.abs(residuals).max(axis=1) / self.scale).ravel()
        p_values = {
            "scale": gamma_two_sided(float(radii.sum()), radii.size * self.length, radii.size * GRID),
            "shape": uniformity_p_value(1 - np.array([gamma_above(x, self.length) for x in radii.tolist()])),
            "largest": min(1.0, radii.size * gamma_above(float(radii.max()), self.length)),
        }
        signs = residuals[residuals != 0]
        if signs.size:
            p_values["signs"] = two_sided_p_value(int((signs > 0).sum()), signs.size, 0.5)
        return p_values

    def score(self, values: Floats, first: Floats, second: Floats) -> Floats:
        """Return the log density ratios; see Law.score."""
        second_distance, first_distance = (
            np.abs(self._groups(values - exact)).max(axis=1).sum(axis=1) for exact in (second, first)
        )
        ratios: Floats = (second_distance - first_distance) / self.scale
        return ratios

    def _groups(self, values: Floats) -> Floats:
        """Reshape releases into coordinate groups, float64[n, c, P/c]."""
        return values.reshape(len(values), self.length, -1)


@dataclass(frozen=True, slots=True)
class SphereLaw:
    """PrivUnit, which releases a point V on the unit sphere that lies in the cap ⟨V, u⟩ ≥ γ with probability p.

    Attributes:
        cap: γ, p and E⟨V, u⟩.
        epsilon: ε.
        tolerance: the largest deviation of V's length from 1 that rounding can cause.
    """

    cap: Cap
    epsilon: float
    tolerance: float

    @property
    def hit_probability(self) -> float:
        """The probability of the highest score; see Law.hit_probability."""
        return self.cap.probability

    def p_values(self, values: Floats, exact: Floats) -> dict[str, float]:
        """Return the p-values, where `exact` contains unit vectors; see Law.p_values."""
        heights = (values * exact).sum(axis=1)
        n = len(heights)
        length_error = float(np.abs(np.sqrt((values**2).sum(axis=1)) - 1).max())
        mean_error = float(heights.mean()) - self.cap.mean
        return {
            "cap": two_sided_p_value(int((heights >= self.cap.gamma).sum()), n, self.cap.probability),
            "mean": min(1.0, 2 * math.exp(-n * mean_error * mean_error / 2)),
            "length": float(length_error <= self.tolerance),
        }

    def score(self, values: Floats, first: Floats, second: Floats) -> Floats:
        """Return the log density ratios; see Law.score. The density in the cap is e^ε times the density outside."""
        in_cap = [(values * exact).sum(axis=1) >= self.cap.gamma for exact in (first, second)]
        ratios: Floats = self.epsilon * (in_cap[0].astype(np.float64) - in_cap[1])
        return ratios


@dataclass(frozen=True, slots=True)
class LabelAndSphereLaw:
    """Randomised response on the first coordinate, the label, and PrivUnit on the others.

    Attributes:
        label: randomised response for the label.
        sphere: the law of the other coordinates.
    """

    label: RandomisedLabel
    sphere: SphereLaw

    @property
    def hit_probability(self) -> float:
        """The probability of the highest score; see Law.hit_probability."""
        return self.label.true_weight / self.label.total * self.sphere.hit_probability

    def p_values(self, values: Floats, exact: Floats) -> dict[str, float]:
        """Return the p-values of both parts; see Law.p_values."""
        matches = int((values[:, 0] == exact[:, 0]).sum())
        probability = self.label.true_weight / self.label.total
        return {
            "label": two_sided_p_value(matches, len(values), probability),
            **self.sphere.p_values(values[:, 1:], exact[:, 1:]),
        }

    def score(self, values: Floats, first: Floats, second: Floats) -> Floats:
        """Return the log density ratios, summed over both parts; see Law.score."""
        label_evidence = (values[:, 0] == first[:, 0]).astype(np.float64) - (values[:, 0] == second[:, 0])
        ratios: Floats = self.label.epsilon * label_evidence + self.sphere.score(
            values[:, 1:], first[:, 1:], second[:, 1:]
        )
        return ratios
