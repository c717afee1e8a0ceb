"""Dominating pairs: the two laws (P, Q) no two neighbours' releases are easier to tell apart than.

A pair is known by its privacy profile δ(ε) = sup over sets S of P(S) - e^ε Q(S), for every real ε. Composition of
mechanisms is bounded by composition of their pairs, also when each is chosen in view of earlier answers (Zhu, Dong &
Wang 2022, Theorem 10). Noise is given as a multiplier: standard deviation over the largest norm of one record's part of
the sum, whatever the neighbouring relation.

A Poisson-sampled sum without a record against the one with it is `Added`, the reverse is `Removed`; which of them holds
in a step is the same in all steps. With one record replaced it is `Replaced`; so is one under a batch of fixed size,
`FixedSize`. The arguments are in docs/decisions/0012-accounting.md.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

MIN_NOISE = 1 / 32  # below it a sampled release is charged as infinite: its exponentials leave the range of floats


class Pair(Protocol):
    """A dominating pair; hashable, and equal to another of the same parameters."""

    def __hash__(self) -> int:
        """Frozen, hence hashable."""
        ...

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """δ at each ε, shape of ε, and how much each may be off, above or below."""
        ...


@dataclass(frozen=True, slots=True)
class Gaussian:
    """N(μ, 1) and N(0, 1): all Gaussian releases of a ledger together."""

    mu: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """Balle & Wang 2018, Theorem 8."""
        far, near = epsilon / self.mu + self.mu / 2, epsilon / self.mu - self.mu / 2
        above = _beyond(near)
        return _capped(above - np.exp(epsilon) * _beyond(far), epsilon), _error(above, near, far)


@dataclass(frozen=True, slots=True)
class Removed:
    """(1 - q) N(0, z²) + q N(1, z²) and N(0, z²), for rate q and noise multiplier z."""

    rate: float
    noise: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """The best set is a half line x > t; it is everything for ε ≤ ln(1 - q)."""
        q, z = self.rate, self.noise
        excess = np.expm1(epsilon) + q
        with np.errstate(divide="ignore"):
            t = np.where(excess > 0, z * z * (np.log(np.maximum(excess, 0)) - math.log(q)) + 0.5, -np.inf)
        near, far = (t - 1) / z, t / z
        hit, missed = _beyond(near), _beyond(far)
        above = q * hit + (1 - q) * missed
        return _capped(q * hit - excess * missed, epsilon), _error(above, near, far)


@dataclass(frozen=True, slots=True)
class Added:
    """N(0, z²) and (1 - q) N(0, z²) + q N(1, z²)."""

    rate: float
    noise: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """The best set is a half line x < t; it is empty for ε ≥ -ln(1 - q)."""
        q, z = self.rate, self.noise
        excess = np.expm1(-epsilon) + q
        with np.errstate(divide="ignore"):
            t = np.where(excess > 0, z * z * (np.log(np.maximum(excess, 0)) - math.log(q)) + 0.5, -np.inf)
        near, far = -t / z, (1 - t) / z
        above = _beyond(near)
        rest = np.exp(epsilon)
        return _capped(rest * (excess * above - q * _beyond(far)), epsilon), _error(above, near, far)


@dataclass(frozen=True, slots=True)
class Replaced:
    """(1 - q) N(0, z²) + q N(1, z²) and (1 - q) N(0, z²) + q N(-1, z²)."""

    rate: float
    noise: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """The pair is its own mirror image; the best set for ε ≥ 0 is a half line x > t."""
        return symmetric(self._above, epsilon)

    def _above(self, epsilon: Vector) -> tuple[Vector, Vector]:
        q, z = self.rate, self.noise
        log_b = math.log(q) - 1 / (2 * z * z)
        a = (1 - q) * np.expm1(epsilon)
        y = a + np.hypot(a, 2 * np.exp(log_b + epsilon / 2))  # y / 2b is the root of b y² - (1 - q)(e^ε - 1) y - b e^ε
        t = np.where(epsilon > 0, z * z * (np.log(y) - math.log(2) - log_b), 0.0)
        near, middle, far = (t - 1) / z, t / z, (t + 1) / z
        hit, missed = _beyond(near), _beyond(middle)
        above = q * hit + (1 - q) * missed
        return q * hit - a * missed - q * np.exp(epsilon) * _beyond(far), _error(above, near, far)


@dataclass(frozen=True, slots=True)
class FixedSize:
    """Exactly a share q of the records, one replaced: for ε ≥ 0 the profile of `Removed`, else of `Added`, at z/2."""

    rate: float
    noise: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """Zhu, Dong & Wang 2022, Proposition 30."""
        return symmetric(Removed(self.rate, self.noise / 2).profile, epsilon)


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise of a pure ε: two Laplace laws of scale 1, ε apart."""

    pure: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """1 - e^((ε - pure)/2) for 0 ≤ ε ≤ pure."""
        return symmetric(self._above, epsilon)

    def _above(self, epsilon: Vector) -> tuple[Vector, Vector]:
        delta = np.maximum(0, -np.expm1((epsilon - self.pure) / 2))
        return delta, delta * 2.0**-50


@dataclass(frozen=True, slots=True)
class Pure:
    """Anything of a pure ε: one bit, answered truly with probability e^ε / (1 + e^ε) (Kairouz, Oh & Viswanath 2015)."""

    pure: float

    def profile(self, epsilon: Vector) -> tuple[Vector, Vector]:
        """(e^pure - e^ε) / (e^pure + 1) for 0 ≤ ε ≤ pure."""
        return symmetric(self._above, epsilon)

    def _above(self, epsilon: Vector) -> tuple[Vector, Vector]:
        delta = np.maximum(0, -np.expm1(epsilon - self.pure)) / (1 + math.exp(-self.pure))
        return delta, delta * 2.0**-50


class _Half(Protocol):
    def __call__(self, epsilon: Vector, /) -> tuple[Vector, Vector]: ...


def symmetric(above: _Half, epsilon: Vector) -> tuple[Vector, Vector]:
    """Curve of a pair that is its own mirror image, from ε ≥ 0: δ(-ε) = 1 - e^-ε + e^-ε δ(ε)."""
    delta, error = above(np.abs(epsilon))
    scale = np.exp(np.minimum(epsilon, 0.0))
    return _capped(scale * delta - np.expm1(np.minimum(epsilon, 0.0)), epsilon), scale * error + 2.0**-50 * (
        epsilon < 0
    )


def _capped(delta: Vector, epsilon: Vector) -> Vector:
    """Within what every profile keeps: 1 - e^ε and 0 below, 1 above."""
    return np.clip(delta, np.maximum(0.0, -np.expm1(np.minimum(epsilon, 0.0))), 1.0)


def _error(above: Vector, near: Vector, far: Vector) -> Vector:
    """Error of P(S) - e^ε Q(S), from P(S): an error of one part in 2^53 in x moves Φ(-x) by x² of them, for x > 1.

    That t is off matters in second order only: it is where the difference is largest.
    """
    square = np.clip(near, 0, 40) ** 2 + np.clip(far, 0, 40) ** 2
    return above * (8 + square) * 2.0**-51


def _beyond(x: Vector) -> Vector:
    """Φ(-x)."""
    flat = (x * math.sqrt(0.5)).ravel()
    return np.fromiter(map(math.erfc, flat.tolist()), np.float64, flat.size).reshape(x.shape) / 2
