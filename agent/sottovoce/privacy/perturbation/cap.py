"""PrivUnit's spherical cap: its size, its probability, and the accuracy of a draw.

PrivUnit (Bhowmick, Duchi, Freudiger, Kapoor & Rogers 2018, Algorithm 1; optimal: Asi, Feldman & Talwar 2022) draws V
on the unit sphere of ℝᴰ. With probability p, V is uniform on the cap {⟨V, u⟩ ≥ γ}; otherwise, it is uniform on the
rest of the sphere. With q = P[⟨uniform, u⟩ ≥ γ], the densities for any two u differ by at most a factor of
p (1 - q) / ((1 - p) q), which is at most e^ε. Since E V = m u, V/m is unbiased with mean squared error 1/m² - 1.

Integration by parts yields two identities: the best γ for a given ε satisfies γ = m, and
E VVᵀ = (1 - γm)/D · I + γm · uuᵀ for every γ.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

MAX_EPSILON = 500.0
MIN_EPSILON = 2.0**-16
PROBABILITY_BITS = 128  # p and 1 - p are multiples of 2^-128
_PROBABILITY_UNITS = 1 << PROBABILITY_BITS

# p is rounded down until its odds are this far below the limit for ε; `_tail` errs by at most 2^-28 up to D = 2^20.
_SLACK = 2.0**-24
# A γ closer to 1 would exhaust a float's precision, and the error is already below 10⁻⁶.
_MAX_GAMMA = 1 - 2.0**-20
_BISECTIONS = 60
_TERMS = 4096


@dataclass(frozen=True, slots=True)
class Cap:
    """A cap and the probability of drawing from it.

    Attributes:
        dimension: D.
        gamma: γ, a public constant that equals this float exactly.
        inside: p · 2^128, an integer; V is drawn from the cap if a uniform 128-bit number is below it.
        mean: m.
    """

    dimension: int
    gamma: float
    inside: int
    mean: float

    @property
    def error(self) -> float:
        """Return E‖V/m - u‖² for |u| = 1."""
        return 1 / (self.mean * self.mean) - 1

    @property
    def share(self) -> float:
        """Return γm, the weight of uuᵀ in E VVᵀ; I/D has the weight 1 - γm."""
        return self.gamma * self.mean

    @property
    def probability(self) -> float:
        """Return p, the probability of drawing from the cap."""
        return math.ldexp(self.inside, -PROBABILITY_BITS)


@lru_cache(maxsize=64)
def best_cap(dimension: int, epsilon: float) -> Cap:
    """Return the cap in ℝᴰ with the least error at ε.

    With D = 1, this is randomised response on the sign, since the sphere is {-1, 1} and the cap is {u}.

    Args:
        dimension: D ≥ 1.
        epsilon: from 2^-16 to 500.
    """
    if dimension == 1:
        inside = _scaled_probability(epsilon, 0.5)
        return Cap(1, 1.0, inside, math.ldexp(2 * inside - _PROBABILITY_UNITS, -PROBABILITY_BITS))
    low, high = 0.0, _MAX_GAMMA
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        q, moment = _tail(dimension, middle)
        growth = math.expm1(epsilon)
        low, high = (middle, high) if moment * growth > middle * (1 + growth * q) else (low, middle)
    q, moment = _tail(dimension, low)
    inside = _scaled_probability(epsilon, q)
    p, complement = math.ldexp(inside, -PROBABILITY_BITS), math.ldexp(_PROBABILITY_UNITS - inside, -PROBABILITY_BITS)
    return Cap(dimension, low, inside, moment * (p / q - complement / (1 - q)))


def _scaled_probability(epsilon: float, q: float) -> int:
    """Return ⌊p 2^128⌋ or less, where p is the largest with p/(1 - p) ≤ e^ε q/(1 - q)."""
    odds = math.exp(epsilon) * q / (1 - q) * (1 - _SLACK)
    outside = int(math.ldexp(1 / (1 + odds), PROBABILITY_BITS)) + 1
    return _PROBABILITY_UNITS - outside


def _tail(dimension: int, gamma: float) -> tuple[float, float]:
    """Return q(γ) = P[t ≥ γ] and E[t; t ≥ γ] for t = ⟨V, u⟩, V uniform on the sphere of ℝᴰ, D ≥ 2, 0 ≤ γ < 1.

    q = I_{1-γ²}(a, ½)/2 with a = (D - 1)/2, where I is the regularised incomplete beta function. The function uses the
    faster of two series with positive terms: one for the cap itself, and one for the band 0 ≤ t < γ, which is
    subtracted from ½. In the second case, q > 1/200, so little precision is lost.
    E[t; t ≥ γ] = (1 - γ²)^a / (2a B(½, a)).
    """
    a = (dimension - 1) / 2
    x = (1 - gamma) * (1 + gamma)
    moment = math.exp(a * math.log(x)) * _inverse_beta(a) / (2 * a)
    if dimension * gamma * gamma > 6 or gamma > 0.7:
        return gamma * moment * _series(a + 0.5, a + 1, x), moment
    return 0.5 - 2 * a * gamma * moment * _series(a + 0.5, 1.5, gamma * gamma), moment


def _series(top: float, bottom: float, x: float) -> float:
    """Return Σ_n (top)_n/(bottom)_n xⁿ, all terms positive, 0 ≤ x < 1; relative error below 2^-51 per term added."""
    total, term, n = 1.0, 1.0, 0
    while True:
        indices = np.arange(n, n + _TERMS, dtype=np.float64)
        ratios = (top + indices) / (bottom + indices) * x
        terms = term * np.cumprod(ratios)
        total += float(terms.sum())
        term, n = float(terms[-1]), n + _TERMS
        ratio = float(ratios[-1])
        if ratio < 1 and term * ratio < (1 - ratio) * 2.0**-60 * total:
            return total


def _inverse_beta(a: float) -> float:
    """Return 1/B(½, a) = Γ(a + ½)/(√π Γ(a))."""
    if a < 20:
        return math.gamma(a + 0.5) / math.gamma(a) / math.sqrt(math.pi)
    tail = 17 / 14336 / a**7 - 1 / 640 / a**5 + 1 / 192 / a**3 - 1 / 8 / a
    return math.sqrt(a / math.pi) * math.exp(tail)
