"""Mechanism families with one member per noise level, and the power of the best test against each member.

A test that answers "first" with probability t in one world and f in the other has the advantage t - f. Its advantage on
two neighbours never exceeds the mechanism's δ at ε = 0. If a mechanism belongs to the claimed family, an observed
advantage therefore bounds its noise from above, and hence its ε from below (Nasr et al. 2023).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Protocol

from sottovoce.calculator.calibration import Neighbouring, calibrate
from sottovoce.privacy.accounting.accountant import composed_delta, composed_epsilon
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon, gaussian_mu
from sottovoce.privacy.accounting.pairs import MIN_NOISE, AddedPair, Pair, RemovedPair, ReplacedPair

from sottovoce_lab.auditor.p_values import phi

_NORMAL = NormalDist()
_MAX_NOISE = 2.0**16
_BISECTIONS = 16  # accurate to less than a thousandth of the noise level


class Shape(Protocol):
    """A mechanism family with one member per noise level."""

    def advantage(self, epsilon: float, delta: float) -> float:
        """Return the advantage of the best test against the member that is exactly (ε, δ)-private."""
        ...

    def epsilon(self, advantage: float, delta: float) -> float:
        """Return ε at δ for the noisiest member against which a test can have this advantage; 0 for no advantage."""
        ...


@dataclass(frozen=True, slots=True)
class Gaussians:
    """Gaussian mechanisms under μ-GDP: pairs of normal distributions whose means differ by μ."""

    def advantage(self, epsilon: float, delta: float) -> float:
        """Return the best test's advantage; see Shape.advantage."""
        return 2 * phi(gaussian_mu(epsilon, delta) / 2) - 1

    def epsilon(self, advantage: float, delta: float) -> float:
        """Return ε of the noisiest member; see Shape.epsilon."""
        if advantage <= 0:
            return 0.0
        return gaussian_epsilon(2 * _NORMAL.inv_cdf((1 + advantage) / 2), delta) if advantage < 1 else math.inf


@dataclass(frozen=True, slots=True)
class SampledGaussians:
    """Gaussian sums over secret random batches.

    Attributes:
        rate: the probability that a record is in a batch.
        releases: the number of released sums.
        neighbouring: the neighbouring relation between data sets.
    """

    rate: float
    releases: int
    neighbouring: Neighbouring

    def advantage(self, epsilon: float, delta: float) -> float:
        """Return the best test's advantage; see Shape.advantage."""
        return self._advantage(self.noise(epsilon, delta))

    def noise(self, epsilon: float, delta: float) -> float:
        """Return the noise multiplier of the member that is exactly (ε, δ)-private."""
        return _noise(self, epsilon, delta)

    def epsilon(self, advantage: float, delta: float) -> float:
        """Return ε of the noisiest member; see Shape.epsilon."""
        if advantage <= 0 or self._advantage(_MAX_NOISE) >= advantage:
            return 0.0
        low, high = MIN_NOISE, _MAX_NOISE
        for _ in range(_BISECTIONS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self._advantage(middle) >= advantage else (low, middle)
        return max(composed_epsilon({pair: self.releases}, delta) for pair in self._pairs(high))

    def _advantage(self, noise: float) -> float:
        return max(composed_delta({pair: self.releases}, 0.0) for pair in self._pairs(noise))

    def _pairs(self, noise: float) -> list[Pair]:
        if self.neighbouring == "replace-one":
            return [ReplacedPair(self.rate, noise)]
        return [RemovedPair(self.rate, noise), AddedPair(self.rate, noise)]


@lru_cache(maxsize=64)
def _noise(shape: SampledGaussians, epsilon: float, delta: float) -> float:
    return calibrate(
        "gaussian",
        epsilon=epsilon,
        delta=delta,
        neighbouring=shape.neighbouring,
        releases=shape.releases,
        rate=shape.rate,
    ).noise
