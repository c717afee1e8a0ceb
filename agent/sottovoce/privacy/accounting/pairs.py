"""Dominating pairs: distributions (P, Q) at least as easy to tell apart as the releases of any two neighbours.

A pair is defined by its privacy profile δ(ε) = sup over sets S of P(S) - e^ε Q(S), for every real ε. The composition of
mechanisms is bounded by the composition of their pairs, even if each mechanism depends on earlier answers (Zhu, Dong &
Wang 2022, Theorem 10). Noise is expressed as a multiplier: the standard deviation divided by the largest norm of one
record's contribution to the sum, regardless of the neighbouring relation.

`AddedPair` compares a Poisson-sampled sum without a record to the sum with it, and `RemovedPair` is the reverse; one of
the two applies to all steps. `ReplacedPair` is for the replacement of one record, and `FixedSizePair` is for batches of
fixed size. The reasoning is in docs/decisions/0012-accounting.md.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

MIN_NOISE = 1 / 32  # below this, exponentials exceed the float range, so a sampled release is charged as infinite


class Pair(Protocol):
    """A dominating pair; hashable, and equal to any pair with the same parameters."""

    def __hash__(self) -> int:
        """Return the hash of the pair, which is immutable."""
        ...

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """Return δ at each ε, and a bound on its error in either direction, both with the shape of ε."""
        ...


@dataclass(frozen=True, slots=True)
class GaussianPair:
    """The pair N(μ, 1) and N(0, 1), which represents all Gaussian releases of a ledger together."""

    mu: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """See Pair; computed as in Balle & Wang 2018, Theorem 8."""
        far, near = epsilon / self.mu + self.mu / 2, epsilon / self.mu - self.mu / 2
        tail = _upper_tail(near)
        return _clip(tail - np.exp(epsilon) * _upper_tail(far), epsilon), _error_bound(tail, near, far)


@dataclass(frozen=True, slots=True)
class RemovedPair:
    """The pair (1 - q) N(0, z²) + q N(1, z²) and N(0, z²), for rate q and noise multiplier z."""

    rate: float
    noise: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """See Pair; the best set is a half-line x > t, or the whole line if ε ≤ ln(1 - q)."""
        q, z = self.rate, self.noise
        excess = np.expm1(epsilon) + q
        with np.errstate(divide="ignore"):
            t = np.where(excess > 0, z * z * (np.log(np.maximum(excess, 0)) - math.log(q)) + 0.5, -np.inf)
        near, far = (t - 1) / z, t / z
        p_present, p_absent = _upper_tail(near), _upper_tail(far)
        above = q * p_present + (1 - q) * p_absent
        return _clip(q * p_present - excess * p_absent, epsilon), _error_bound(above, near, far)


@dataclass(frozen=True, slots=True)
class AddedPair:
    """The pair N(0, z²) and (1 - q) N(0, z²) + q N(1, z²)."""

    rate: float
    noise: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """See Pair; the best set is a half-line x < t, or empty if ε ≥ -ln(1 - q)."""
        q, z = self.rate, self.noise
        excess = np.expm1(-epsilon) + q
        with np.errstate(divide="ignore"):
            t = np.where(excess > 0, z * z * (np.log(np.maximum(excess, 0)) - math.log(q)) + 0.5, -np.inf)
        near, far = -t / z, (1 - t) / z
        above = _upper_tail(near)
        scale = np.exp(epsilon)
        return _clip(scale * (excess * above - q * _upper_tail(far)), epsilon), _error_bound(above, near, far)


@dataclass(frozen=True, slots=True)
class ReplacedPair:
    """The pair (1 - q) N(0, z²) + q N(1, z²) and (1 - q) N(0, z²) + q N(-1, z²)."""

    rate: float
    noise: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """See Pair; the pair is symmetric, and for ε ≥ 0 the best set is a half-line x > t."""
        return symmetric_profile(self._above, epsilon)

    def _above(self, epsilon: Vector) -> tuple[Vector, Vector]:
        q, z = self.rate, self.noise
        log_b = math.log(q) - 1 / (2 * z * z)
        a = (1 - q) * np.expm1(epsilon)
        y = a + np.hypot(a, 2 * np.exp(log_b + epsilon / 2))  # y / 2b is the root of b y² - (1 - q)(e^ε - 1) y - b e^ε
        t = np.where(epsilon > 0, z * z * (np.log(y) - math.log(2) - log_b), 0.0)
        near, middle, far = (t - 1) / z, t / z, (t + 1) / z
        p_present, p_absent = _upper_tail(near), _upper_tail(middle)
        above = q * p_present + (1 - q) * p_absent
        return q * p_present - a * p_absent - q * np.exp(epsilon) * _upper_tail(far), _error_bound(above, near, far)


@dataclass(frozen=True, slots=True)
class FixedSizePair:
    """The pair for replacing one record, if a fixed share q of the records is sampled.

    It is `RemovedPair` at z/2 for ε ≥ 0, and `AddedPair` at z/2 otherwise.
    """

    rate: float
    noise: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """See Pair; computed as in Zhu, Dong & Wang 2022, Proposition 30."""
        return symmetric_profile(RemovedPair(self.rate, self.noise / 2).profile, epsilon)


@dataclass(frozen=True, slots=True)
class LaplacePair:
    """The pair for Laplace noise with pure ε: two Laplace distributions of scale 1 whose centres are ε apart."""

    pure: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """See Pair; δ is 1 - e^((ε - pure)/2) for 0 ≤ ε ≤ pure."""
        return symmetric_profile(self._above, epsilon)

    def _above(self, epsilon: Vector) -> tuple[Vector, Vector]:
        delta = np.maximum(0, -np.expm1((epsilon - self.pure) / 2))
        return delta, delta * 2.0**-50


@dataclass(frozen=True, slots=True)
class PurePair:
    """The pair for any pure-ε mechanism: a bit, true with probability e^ε / (1 + e^ε).

    See Kairouz, Oh & Viswanath 2015.
    """

    pure: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """See Pair; δ is (e^pure - e^ε) / (e^pure + 1) for 0 ≤ ε ≤ pure."""
        return symmetric_profile(self._above, epsilon)

    def _above(self, epsilon: Vector) -> tuple[Vector, Vector]:
        delta = np.maximum(0, -np.expm1(epsilon - self.pure)) / (1 + math.exp(-self.pure))
        return delta, delta * 2.0**-50


class _HalfProfile(Protocol):
    def __call__(self, epsilon: Vector, /) -> tuple[Vector, Vector]: ...


def symmetric_profile(above: _HalfProfile, epsilon: Vector) -> tuple[Vector, Vector]:
    """Return the profile of a symmetric pair from its values at ε ≥ 0, by δ(-ε) = 1 - e^-ε + e^-ε δ(ε)."""
    delta, error = above(np.abs(epsilon))
    scale = np.exp(np.minimum(epsilon, 0.0))
    return _clip(scale * delta - np.expm1(np.minimum(epsilon, 0.0)), epsilon), scale * error + 2.0**-50 * (epsilon < 0)


def _clip(delta: Vector, epsilon: Vector) -> Vector:
    """Clip values to the range of a valid profile: at least 0, at least 1 - e^ε and at most 1."""
    return np.clip(delta, np.maximum(0.0, -np.expm1(np.minimum(epsilon, 0.0))), 1.0)


def _error_bound(above: Vector, near: Vector, far: Vector) -> Vector:
    """Return an error bound for P(S) - e^ε Q(S), given P(S).

    For x > 1, an error of one part in 2^53 in x changes Φ(-x) by x² such parts. An error in t matters only to second
    order because t maximises the difference.
    """
    square = np.clip(near, 0, 40) ** 2 + np.clip(far, 0, 40) ** 2
    return above * (8 + square) * 2.0**-51


def _upper_tail(x: Vector) -> Vector:
    """Return Φ(-x)."""
    flat = (x * math.sqrt(0.5)).ravel()
    return np.fromiter(map(math.erfc, flat.tolist()), np.float64, flat.size).reshape(x.shape) / 2
