"""Compute lower bounds on ε from an attack's success rate.

- From two error rates (Jagielski, Ullman & Oprea 2020): P[answer D | D] ≤ e^ε P[answer D | D′] + δ, and the same
  inequality with the two answers swapped. Each rate is replaced by its confidence limit. This bound makes no
  assumptions about the mechanism.
- From the difference between the two rates, for a mechanism with a known shape but unknown noise (Nasr et al. 2023):
  see `shapes`.
- From one run with many canaries, whose releases may depend on each other (Steinke, Nasr & Jagielski 2023, Theorem
  5.2).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sottovoce.privacy.accounting.gaussian import MAX_EPSILON

from sottovoce_lab.auditor.binomial import lower_limit, probabilities, quantile, upper_limit
from sottovoce_lab.auditor.shapes import Shape

_MAX_EPSILON = 100.0
_BISECTIONS = 50
_POWER = 0.9
_MAX_TRIALS = 2**16


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """Counts of how often an attack answered "first" in each world.

    Attributes:
        hits: the number of "first" answers in the first world.
        first_trials: the number of trials in the first world.
        alarms: the number of "first" answers in the second world.
        second_trials: the number of trials in the second world.
    """

    hits: int
    first_trials: int
    alarms: int
    second_trials: int

    def epsilon(self, delta: float, alpha: float) -> float:
        """Return a lower bound on ε with confidence 1 - alpha, valid for any mechanism.

        Each of the four confidence limits uses alpha/4.
        """
        quarter = alpha / 4
        first_answers = (
            lower_limit(self.hits, self.first_trials, quarter),
            upper_limit(self.alarms, self.second_trials, quarter),
        )
        second_answers = (
            lower_limit(self.second_trials - self.alarms, self.second_trials, quarter),
            upper_limit(self.first_trials - self.hits, self.first_trials, quarter),
        )
        return max(
            0.0, *(math.log((true - delta) / false) for true, false in (first_answers, second_answers) if true > delta)
        )

    def advantage(self, alpha: float) -> float:
        """Return a lower bound, with confidence 1 - alpha, on the true positive rate minus the false positive rate.

        Each of the two confidence limits uses alpha/2.
        """
        true, false = (
            lower_limit(self.hits, self.first_trials, alpha / 2),
            upper_limit(self.alarms, self.second_trials, alpha / 2),
        )
        return max(0.0, true - false)


def one_run_p(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return an upper bound on the probability of at least `right` correct guesses under (ε, δ).

    This is Theorem 5.2 in Steinke et al. 2023.

    Args:
        canaries: m, the number of canaries, each assigned to one of the two worlds by a fair coin.
        guesses: r ≤ m, the number of guesses, made for canaries that were chosen without knowing their coins.
        right: v, the number of correct guesses.
        epsilon: ε.
        delta: δ.
    """
    guess_probabilities = probabilities(np.arange(guesses + 1), guesses, 1 / (1 + math.exp(-epsilon)))
    pure_tail = math.fsum(guess_probabilities[right:])
    if delta == 0 or right == 0:
        return min(1.0, pure_tail)
    lower_tails = np.cumsum(guess_probabilities[right - 1 :: -1])
    return min(1.0, pure_tail + 2 * canaries * delta * float((lower_tails / np.arange(1, right + 1)).max()))


def one_run_epsilon(canaries: int, guesses: int, right: int, delta: float, alpha: float) -> float:
    """Return a lower bound on ε from one run, with confidence 1 - alpha; see `one_run_p`."""
    if one_run_p(canaries, guesses, right, 0.0, delta) > alpha:
        return 0.0
    low, high = 0.0, _MAX_EPSILON
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if one_run_p(canaries, guesses, right, middle, delta) <= alpha else (low, middle)
    return low


def sample_size(shape: Shape, epsilon: float, delta: float, alpha: float, factor: float = 2.0) -> int | None:
    """Return the number of trials per world that refutes ε with power 0.9 if the true ε is `factor` times as large.

    The estimate assumes the best attack, with equal error rates in both worlds, and the bound `AnswerCounts.advantage`.
    """
    claimed = shape.advantage(epsilon, delta)
    right = (1 + shape.advantage(min(factor * epsilon, MAX_EPSILON), delta)) / 2
    return _sample_size(right, 1 - right, lambda counts: counts.advantage(alpha) > claimed)


def pure_sample_size(epsilon: float, alpha: float, hit: float, factor: float = 2.0) -> int | None:
    """Return the sample size for refuting a pure ε.

    The attack has the hit rate `hit` and the false alarm rate `hit` e^-(factor · ε).
    """
    return _sample_size(hit, hit * math.exp(-factor * epsilon), lambda counts: counts.epsilon(0.0, alpha) > epsilon)


def _sample_size(hit: float, alarm: float, refutes: Callable[[AnswerCounts], bool]) -> int | None:
    """Return the smallest sufficient n, within 2 %, or None if n would exceed 2^16.

    A sufficient n refutes the claim even if both counts are at their unfavourable 95 % quantiles.
    """
    share = (1 + _POWER) / 2

    def is_sufficient(n: int) -> bool:
        return refutes(AnswerCounts(n - quantile(share, n, 1 - hit), n, quantile(share, n, alarm), n))

    high = 8
    while not is_sufficient(high):
        high *= 2
        if high > _MAX_TRIALS:
            return None
    low = high // 2
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if is_sufficient(middle) else (middle, high)
    return high
