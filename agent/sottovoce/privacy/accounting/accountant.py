"""Compute ε and δ for composed dominating pairs by querying `convolution`, choosing a grid for each query.

Adding an event never lowers an answer. On a fixed grid, this holds because removing a part from a composition never
raises its cost. A coarser grid can only raise the cost. If an added pair would make the grid finer, the answer is at
least the one computed without the pairs that need the finer grid.
"""

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from sottovoce.privacy.accounting.convolution import MAX_NODES, Curve, convolve
from sottovoce.privacy.accounting.pairs import Pair
from sottovoce.privacy.accounting.pld import ORDERS, losses, outline

MAX_EPSILON = 500.0
_LOG_NEGLIGIBLE = 20.0  # mass outside the window is at most e^-20 of the tilted distribution
_NODES = 2**18  # maximum number of grid nodes, both for one loss and for a window 24 standard deviations wide
_PASSES = 3
_MAX_TILT = 2.0  # largest θ · step; a steeper tilt would amplify the rounding error of a single step

Counts = tuple[tuple[Pair, int], ...]


def composed_epsilon(counts: Mapping[Pair, int], delta: float) -> float:
    """Return the ε of the composed pairs at δ, rounded up; infinite above MAX_EPSILON.

    Raises:
        ValueError: if δ is not in (0, 1).
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}")
    epsilon = max((_epsilon(level, delta) for level in _levels(counts)), default=0.0)
    return epsilon if epsilon <= MAX_EPSILON else math.inf


def composed_delta(counts: Mapping[Pair, int], epsilon: float) -> float:
    """Return the δ of the composed pairs at ε, rounded up.

    Raises:
        ValueError: if ε is negative or not finite.
    """
    if not 0 <= epsilon < math.inf:
        raise ValueError(f"epsilon must be finite and non-negative, got {epsilon}")
    return max((_delta(level, epsilon) for level in _levels(counts)), default=0.0)


def _levels(counts: Mapping[Pair, int]) -> list[Counts]:
    """Return nested groups of pairs: all pairs, all pairs except those with the finest grid, and so on."""
    steps = {pair: outline(pair).step for pair, count in counts.items() if count > 0}
    ordered = sorted(steps, key=lambda pair: (steps[pair], repr(pair)))
    return [
        tuple((pair, counts[pair]) for pair in ordered if steps[pair] >= step) for step in sorted(set(steps.values()))
    ]


@lru_cache(maxsize=4096)
def _epsilon(counts: Counts, delta: float) -> float:
    log_moments = _log_moments(counts)
    # First guess: Canonne, Kamath & Steinke 2020, Proposition 12.
    orders = ORDERS[ORDERS > 0]
    logs = log_moments[ORDERS > 0]
    guess = (logs - math.log(delta) - np.log1p(orders) + orders * np.log(orders / (orders + 1))) / orders
    index = int(np.argmin(guess))
    best, order = math.inf, float(orders[index])
    centre = max(0.0, float(guess[index]))
    if centre > 4 * MAX_EPSILON:
        return math.inf
    for _ in range(_PASSES):
        best = min(best, _curve(counts, order, centre).epsilon(delta))
        if not math.isfinite(best):
            break
        centre, previous = best, order
        order = _best_order(counts, centre)
        if abs(math.log(max(order, 1e-3) / max(previous, 1e-3))) < 1:
            break
    return best


@lru_cache(maxsize=4096)
def _delta(counts: Counts, epsilon: float) -> float:
    order = _best_order(counts, epsilon)
    return min(_curve(counts, theta, epsilon).delta(epsilon) for theta in (order, order / 8))


def _log_moments(counts: Counts) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return ln E[e^(θL)] for each θ in ORDERS, where L is the sum of the losses."""
    total = np.zeros(len(ORDERS))
    for pair, count in counts:
        total += count * outline(pair).logs
    return total


def _best_order(counts: Counts, epsilon: float) -> float:
    """Return the θ ≥ 0 that minimises the Chernoff bound on P[sum of losses ≥ ε]."""
    exponents = np.where(ORDERS >= 0, _log_moments(counts) - ORDERS * epsilon, math.inf)
    return float(ORDERS[int(np.argmin(exponents))])


def _curve(counts: Counts, order: float, centre: float) -> Curve:
    """Return the curve near this θ, or at a lower θ if bounded losses make this one too steep for the grid."""
    while (curve := _tilted_curve(counts, order, centre)).delta_floor >= 1 and order > 1e-3:
        order /= 16
    return curve


def _tilted_curve(counts: Counts, order: float, centre: float) -> Curve:
    step = _step(counts)
    shift = np.abs(ORDERS) * step  # the grid moves a loss by less than one step and preserves the mean of e^loss
    log_moments = _log_moments(counts) + sum(count for _, count in counts) * np.minimum(shift * shift / 8, shift)
    index = int(np.searchsorted(ORDERS, min(order, _MAX_TILT / step)))
    order = float(ORDERS[index])
    rise, gap = log_moments - log_moments[index] + _LOG_NEGLIGIBLE, ORDERS - order
    above, below = gap > 0, gap < 0
    high = min([*(rise[above] / gap[above]), math.fsum(count * (outline(pair).high + step) for pair, count in counts)])
    low = max([*(rise[below] / gap[below]), math.fsum(count * (outline(pair).low - step) for pair, count in counts)])
    low, high = min(0.0, low), max(high, centre)
    while 2 * (centre - low) > MAX_NODES * step:
        step *= 2
    high = min(high + step, low + (MAX_NODES - 4) * step)
    far_order = float(ORDERS[int(np.argmin(np.where(ORDERS >= 0, log_moments - ORDERS * high, math.inf)))])
    return convolve([(losses(pair, step), count) for pair, count in counts], order, centre, low, high, far_order)


def _step(counts: Counts) -> float:
    """Return the finest grid step of any pair, or a larger one if _NODES requires it for one loss or for the sum."""
    outlines = [(outline(pair), count) for pair, count in counts]
    widest = max(shape.high - shape.low for shape, _ in outlines)
    deviation = math.sqrt(math.fsum(count * shape.spread**2 for shape, count in outlines))
    finest = min(shape.step for shape, _ in outlines)
    return max(finest, 2.0 ** math.ceil(math.log2(max(widest, 24 * deviation) / _NODES)))
