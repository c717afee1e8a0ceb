"""Discretise a pair's privacy loss distribution on a grid, without ever understating the privacy loss.

The loss is ln(dP/dQ)(x) for x drawn from P. On a grid with step h, its distribution is replaced by one on multiples of
h and infinity. The new distribution's profile agrees with the pair's at the grid points and is linear in e^ε between
them. This method is known as "connecting the dots" (Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022). Because a
profile is convex in e^ε, the new profile is never below the original, and the profile on a coarser grid is never below
the one on a finer grid that contains it. The profile at i - 1 and i determines

  P[loss ≥ ih] = (δ((i-1)h) - e^-h δ(ih)) / (1 - e^-h).

The profile's errors are added to the first δ and subtracted from the second. Losses above the grid count as infinite.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sottovoce.privacy.accounting.pairs import Pair, Vector

TAIL = 2.0**-70  # largest probability of a loss above the grid
MAX_LOSS = 650.0  # no grid extends farther, since floats overflow above e^709
MIN_STEP = 2.0**-22  # finest grid step; the error in ε at this step is already negligible
ORDERS = np.concatenate([-np.geomspace(1e7, 1e-3, 128), [0.0], np.geomspace(1e-3, 1e7, 128)])  # θ in E[e^θL]
_OUTLINE_NODES = MAX_LOSS * np.sinh(np.linspace(-17, 17, 4201)) / math.sinh(17)


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """A discretised privacy loss distribution.

    Attributes:
        step: h.
        first: the lowest loss is first · h.
        masses: float64[n], the probabilities of first · h, (first + 1) · h, …
        infinity_mass: the probability of infinity.
    """

    step: float
    first: int
    masses: Vector
    infinity_mass: float

    @property
    def values(self) -> Vector:
        """Return the losses, float64[n]."""
        return np.arange(self.first, self.first + len(self.masses), dtype=np.float64) * self.step

    def tilt(self, order: float) -> tuple[Vector, float, float]:
        """Return masses · e^(order · loss) scaled to sum to 1, the logarithm of the original sum, and the error."""
        exponents = np.log(np.maximum(self.masses, 1e-320)) + order * self.values
        largest = float(exponents.max())
        weights = np.exp(exponents - largest)
        total = float(weights.sum())
        return (
            weights / total,
            largest + math.log(total),
            float(2.0**-50 * (np.abs(exponents).max() + 800 + len(weights) / 16)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """Rough outline of a loss, which is used to choose a grid and does not affect the correctness of any answer.

    Attributes:
        low: value that almost every loss exceeds.
        high: value that a loss exceeds with probability at most TAIL.
        spread: standard deviation of the loss.
        logs: ln E[e^θL] for every θ of ORDERS.
    """

    low: float
    high: float
    spread: float
    logs: Vector

    @property
    def step(self) -> float:
        """Return a power of two between 1/16 and 1/8 of the spread; this adds less than 1 % to the variance."""
        return min(16.0, max(MIN_STEP, 2.0 ** math.floor(math.log2(self.spread / 8))))


@lru_cache(maxsize=256)
def outline(pair: Pair) -> Outline:
    """Return the outline of a pair, computed from 4,201 points that are densest near 0."""
    survival = _survival(pair, _OUTLINE_NODES)
    nodes = _OUTLINE_NODES[1:]
    low = max(0, int(np.searchsorted(-survival, -(1 - 1e-12))) - 1)
    high = min(len(nodes) - 1, int(np.searchsorted(-survival, -TAIL)))
    masses = np.append(survival[low:high] - survival[low + 1 : high + 1], survival[high])
    masses[0] += 1 - survival[low]
    values = nodes[low : high + 1]
    mean = float(masses @ values)
    with np.errstate(divide="ignore"):
        exponents = np.log(masses)
    logs = np.array([_log_sum(exponents + order * values) for order in ORDERS])
    spread = math.sqrt(float(masses @ (values - mean) ** 2))
    return Outline(float(nodes[low]), float(nodes[high]), max(spread, MIN_STEP), logs)


@lru_cache(maxsize=16)
def losses(pair: Pair, step: float) -> Losses:
    """Return the pair's loss on a grid whose step is a power of two."""
    bounds = outline(pair)
    first, last = math.floor(bounds.low / step), math.ceil(bounds.high / step)
    survival = _survival(pair, np.arange(first - 1, last + 2, dtype=np.float64) * step)
    survival[0] = 1.0
    return Losses(step, first, survival[:-1] - survival[1:], float(survival[-1]))


def _log_sum(exponents: Vector) -> float:
    largest = float(exponents.max())
    return largest + math.log(float(np.exp(exponents - largest).sum()))


def _survival(pair: Pair, nodes: Vector) -> Vector:
    """Return P[loss ≥ node] for all nodes except the first, rounded up and never increasing."""
    delta, error = pair.profile(nodes)
    shrink = -np.diff(nodes)
    survival = (delta[:-1] + error[:-1] - np.exp(shrink) * (delta[1:] - error[1:])) / -np.expm1(shrink)
    return np.minimum(1.0, np.maximum.accumulate(survival[::-1])[::-1])
