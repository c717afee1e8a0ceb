"""Exact binomial tails and Clopper-Pearson (1934) confidence limits, accurate to full float precision."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_BISECTIONS = 60


def probability_at_least(count: int, trials: int, probability: float) -> float:
    """Return P[X ≥ count] for a binomial X, computed as a sum of non-negative terms."""
    mean, margin = _mean_and_margin(trials, probability)
    lowest, highest = max(count, 0, math.floor(mean - margin)), math.ceil(max(count, mean) + margin)
    return _sum_probabilities(lowest, min(highest, trials), trials, probability)


def probability_at_most(count: int, trials: int, probability: float) -> float:
    """Return P[X ≤ count] for a binomial X."""
    mean, margin = _mean_and_margin(trials, probability)
    lowest, highest = math.floor(min(count, mean) - margin), min(count, trials, math.ceil(mean + margin))
    return _sum_probabilities(max(lowest, 0), highest, trials, probability)


def two_sided_p_value(count: int, trials: int, probability: float) -> float:
    """Return the two-sided p-value, twice the smaller tail, for a binomial with the given success probability."""
    return min(
        1.0, 2 * min(probability_at_least(count, trials, probability), probability_at_most(count, trials, probability))
    )


def lower_limit(count: int, trials: int, alpha: float) -> float:
    """Return the lower confidence limit, the p with P[X ≥ count] = alpha.

    The true p lies below this limit with probability at most alpha.
    """
    if count <= 0:
        return 0.0
    return _bisect(lambda p: probability_at_least(count, trials, p) > alpha)


def upper_limit(count: int, trials: int, alpha: float) -> float:
    """Return the upper confidence limit, the p with P[X ≤ count] = alpha."""
    return 1.0 - lower_limit(trials - count, trials, alpha)


def quantile(share: float, trials: int, probability: float) -> int:
    """Return the smallest count with P[X ≤ count] ≥ share."""
    low, high = -1, trials
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if probability_at_most(middle, trials, probability) >= share else (middle, high)
    return high


def probabilities(counts: NDArray[np.int64], trials: int, probability: float) -> NDArray[np.float64]:
    """Return P[X = count] for a binomial X and each of the int64 `counts`, as float64 in the same shape."""
    if probability in (0.0, 1.0):
        certain: NDArray[np.float64] = (counts == trials * probability).astype(np.float64)
        return certain
    logs = _log_factorials(trials)
    exponents = logs[trials] - logs[counts] - logs[trials - counts]
    exponents += counts * math.log(probability) + (trials - counts) * math.log1p(-probability)
    result: NDArray[np.float64] = np.exp(exponents)
    return result


@lru_cache(maxsize=8)
def _log_factorials(maximum: int) -> NDArray[np.float64]:
    """Return the logarithms of 0! to maximum!, float64[maximum + 1]."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, maximum + 1)))])


def _mean_and_margin(trials: int, probability: float) -> tuple[float, float]:
    """Return the mean, and a distance beyond which terms are negligible.

    Terms farther than this from the mean and the count add up to less than e^-700 times all other terms.
    """
    mean = trials * probability
    return mean, 40 * math.sqrt(mean * (1 - probability)) + 60


def _sum_probabilities(lowest: int, highest: int, trials: int, probability: float) -> float:
    return min(1.0, float(probabilities(np.arange(lowest, highest + 1), trials, probability).sum()))


def _bisect(is_above: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return low
