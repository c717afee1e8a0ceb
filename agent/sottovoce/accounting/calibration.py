"""Calibration: the least noise with which releases stay within a budget, always computed by the accountant.

Sensitivities are for adding or removing one record; under `replace-one` a sum moves up to twice as far.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sottovoce.accounting.accountant import composed_epsilon
from sottovoce.accounting.discrete import LARGEST_SUMMED, discrete_gaussian_delta
from sottovoce.accounting.events import SMOOTHING_VARIANCE
from sottovoce.accounting.gaussian import gaussian_mu
from sottovoce.accounting.pairs import MIN_NOISE, Added, Laplace, Pair, Removed, Replaced
from sottovoce.errors import PrivacyError

Mechanism = Literal["gaussian", "laplace", "discrete-gaussian", "discrete-laplace"]
Neighbouring = Literal["add-remove", "replace-one"]

_PRECISION = 1e-9  # relative precision of a search
_MAX = 2.0**60


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Least noise that fits a budget.

    Attributes:
        noise: σ, or the Laplace scale, in the units of the sensitivity.
        accountant: the argument by which the accountant found it, in a few words.
    """

    noise: float
    accountant: str


def calibrated(
    mechanism: Mechanism,
    *,
    epsilon: float,
    delta: float,
    sensitivity: float = 1.0,
    neighbouring: Neighbouring = "add-remove",
    releases: int = 1,
    rate: float = 1.0,
    dimensions: int = 1,
) -> Calibrated:
    """Return the least noise with which all releases together are (ε, δ)-differentially private.

    Args:
        mechanism: the noise's law.
        epsilon: total ε.
        delta: total δ; Laplace noise needs none.
        sensitivity: sensitivity to adding or removing a record: L2 for Gaussian laws, L1 for Laplace laws; an integer
            for discrete ones.
        neighbouring: the difference between two neighbouring data sets.
        releases: number of releases, each chosen in view of the earlier ones.
        rate: rate of Poisson sampling: each record is in each sum with this probability; for `gaussian` only.
        dimensions: values in a release of a discrete Gaussian; a single one is charged exactly.

    Raises:
        PrivacyError: if no noise suffices, or none is proved to.
    """
    if not 0 < sensitivity < math.inf or min(releases, dimensions) < 1 or not 0 < rate <= 1:
        raise PrivacyError("choose a positive sensitivity, at least one release of one number and a rate in (0, 1]")
    if rate < 1 and mechanism != "gaussian":
        raise PrivacyError(
            f"sampling is accounted for under gaussian noise, not under {mechanism}: leave the rate at 1"
        )
    if mechanism.startswith("discrete") and sensitivity != int(sensitivity):
        raise PrivacyError(
            f"{mechanism} noise requires whole numbers: choose a whole-number sensitivity, in grid steps"
        )
    distance = sensitivity * (2 if neighbouring == "replace-one" else 1)
    if mechanism.endswith("laplace"):
        return _laplace(epsilon, delta, distance, releases)
    try:
        mu = gaussian_mu(epsilon, delta)
    except ValueError as error:
        raise PrivacyError(str(error)) from error
    if mechanism == "discrete-gaussian":
        return _discrete_gaussian(epsilon, delta, int(distance), releases, dimensions, mu)
    if rate < 1:
        return _sampled(epsilon, delta, sensitivity, neighbouring, releases, rate)
    return Calibrated(distance / mu * math.sqrt(releases) * (1 + 2.0**-50), "analytic Gaussian (Balle & Wang 2018)")


def _laplace(epsilon: float, delta: float, distance: float, releases: int) -> Calibrated:
    if not 0 < epsilon < math.inf or not 0 <= delta < 1:
        raise PrivacyError("choose a positive ε, and a δ of 0 or more and below 1")
    pure = distance * releases / epsilon
    if releases == 1 or delta == 0:
        return Calibrated(pure, "pure: sensitivity / scale")
    found = _least(lambda scale: composed_epsilon({Laplace(distance / scale): releases}, delta) <= epsilon, pure)
    return Calibrated(min(pure, found), "privacy loss distribution")


def _discrete_gaussian(
    epsilon: float, delta: float, distance: int, releases: int, dimensions: int, mu: float
) -> Calibrated:
    bound = math.sqrt((distance / mu) ** 2 * releases + SMOOTHING_VARIANCE) * (1 + 2.0**-48)
    if dimensions != 1 or releases > 1 or bound > LARGEST_SUMMED:
        return Calibrated(bound, "continuous Gaussian at variance σ² - 16 (decision 0003)")
    found = _least(lambda sigma: discrete_gaussian_delta(epsilon, sigma, distance) <= delta, bound)
    return Calibrated(found, "summed discrete Gaussian")


def _sampled(
    epsilon: float, delta: float, sensitivity: float, neighbouring: Neighbouring, releases: int, rate: float
) -> Calibrated:
    def within(noise: float) -> bool:
        if noise < MIN_NOISE:
            return False
        pairs: list[Pair] = (
            [Replaced(rate, noise)] if neighbouring == "replace-one" else [Removed(rate, noise), Added(rate, noise)]
        )
        return all(composed_epsilon({pair: releases}, delta) <= epsilon for pair in pairs)

    return Calibrated(sensitivity * _least(within, 1.0, 1e-7), "privacy loss distribution, Poisson-sampled Gaussian")


def _least(within: Callable[[float], bool], guess: float, precision: float = _PRECISION) -> float:
    """Return the least noise within the budget, up to the precision of a bisection; the result is within the budget."""
    high = guess
    while not within(high):
        high *= 2
        if high > _MAX:
            raise PrivacyError(
                "no amount of noise keeps this many releases within the budget: choose fewer, or a larger ε or δ"
            )
    low = high / 2
    while within(low):
        low, high = low / 2, low
        if low < 1 / _MAX:
            return high
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (low, middle) if within(middle) else (middle, high)
    return high
