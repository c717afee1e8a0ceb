"""Use the accountant to find the least noise that keeps releases within a budget.

Sensitivities refer to adding or removing one record; under `replace-one`, a sum can change by twice as much.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from sottovoce.errors import PrivacyError, UsageError
from sottovoce.privacy.accounting.accountant import composed_epsilon
from sottovoce.privacy.accounting.discrete import MAX_SUMMED_SIGMA, discrete_gaussian_delta
from sottovoce.privacy.accounting.events import SMOOTHING_VARIANCE
from sottovoce.privacy.accounting.gaussian import check_numbers, gaussian_mu
from sottovoce.privacy.accounting.pairs import MIN_NOISE, AddedPair, LaplacePair, Pair, RemovedPair, ReplacedPair
from sottovoce.suggestions import explain_arguments

Mechanism = Literal["gaussian", "laplace", "discrete-gaussian", "discrete-laplace"]
Neighbouring = Literal["add-remove", "replace-one"]

_PRECISION = 1e-9  # relative precision of the bisection
_MAX_NOISE = 2.0**60


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The least noise that fits a budget, as found by the accountant.

    Attributes:
        noise: σ, or the Laplace scale, in the units of the sensitivity.
        accountant: short description of the accountant's method.
    """

    noise: float
    accountant: str


@explain_arguments(
    {
        "target_epsilon": "epsilon",
        "eps": "epsilon",
        "target_delta": "delta",
        "sample_rate": "rate",
        "sampling_probability": "rate",
        "steps": "releases",
        "count": "releases",
        "l2_norm_clip": "sensitivity",
        "max_grad_norm": "sensitivity",
    }
)
def calibrate(
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
        mechanism: noise distribution.
        epsilon: total ε.
        delta: total δ; may be 0 for Laplace noise.
        sensitivity: sensitivity to adding or removing a record: L2 for Gaussian noise, L1 for Laplace noise; an
            integer for discrete noise.
        neighbouring: how two neighbouring data sets differ.
        releases: number of releases, each of which may depend on the earlier ones.
        rate: Poisson sampling rate, the probability that a record is in a given sum; for `gaussian` only.
        dimensions: number of values in a discrete Gaussian release; a single value is charged exactly.

    Raises:
        UsageError: if an argument is unknown or missing, is not a number, or names no mechanism or relation.
        PrivacyError: if an argument is invalid, or if no amount of noise is enough, or can be proved to be enough.
    """
    check_numbers(
        epsilon=epsilon, delta=delta, sensitivity=sensitivity, releases=releases, rate=rate, dimensions=dimensions
    )
    for name, value, choices in (
        ("mechanism", mechanism, get_args(Mechanism)),
        ("neighbouring", neighbouring, get_args(Neighbouring)),
    ):
        if value not in choices:
            raise UsageError(f"{name}={value!r}: choose one of {', '.join(choices)}")
    if not 0 < sensitivity < math.inf or min(releases, dimensions) < 1 or not 0 < rate <= 1:
        raise PrivacyError(
            "the sensitivity must be positive, the number of releases and values at least 1, and the rate in (0, 1]"
        )
    if rate < 1 and mechanism != "gaussian":
        raise PrivacyError(
            f"the accountant supports sampling only with gaussian noise, not with {mechanism} noise; leave the "
            "rate at 1"
        )
    if mechanism.startswith("discrete") and sensitivity != int(sensitivity):
        raise PrivacyError(
            f"{mechanism} noise requires a whole-number sensitivity in grid steps; round the sensitivity up"
        )
    distance = sensitivity * (2 if neighbouring == "replace-one" else 1)
    if mechanism.endswith("laplace"):
        return _laplace(epsilon, delta, distance, releases)
    if delta == 0:
        raise PrivacyError(
            f"delta=0: no {mechanism} noise is enough; set delta, for example 1e-5, or use laplace or discrete-laplace"
        )
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
        raise PrivacyError("ε must be positive, and δ must be at least 0 and less than 1")
    pure = distance * releases / epsilon
    if releases == 1 or delta == 0:
        return Calibrated(pure, "pure: sensitivity / scale")
    bisected = _least_noise(
        lambda scale: composed_epsilon({LaplacePair(distance / scale): releases}, delta) <= epsilon, pure
    )
    return Calibrated(min(pure, bisected), "privacy loss distribution")


def _discrete_gaussian(
    epsilon: float, delta: float, distance: int, releases: int, dimensions: int, mu: float
) -> Calibrated:
    bound = math.sqrt((distance / mu) ** 2 * releases + SMOOTHING_VARIANCE) * (1 + 2.0**-48)
    if dimensions != 1 or releases > 1 or bound > MAX_SUMMED_SIGMA:
        return Calibrated(bound, "continuous Gaussian at variance σ² - 16 (decision 0003)")
    noise = _least_noise(lambda sigma: discrete_gaussian_delta(epsilon, sigma, distance) <= delta, bound)
    return Calibrated(noise, "summed discrete Gaussian")


def _sampled(
    epsilon: float, delta: float, sensitivity: float, neighbouring: Neighbouring, releases: int, rate: float
) -> Calibrated:
    def is_within_budget(noise: float) -> bool:
        if noise < MIN_NOISE:
            return False
        pairs: list[Pair] = (
            [ReplacedPair(rate, noise)]
            if neighbouring == "replace-one"
            else [RemovedPair(rate, noise), AddedPair(rate, noise)]
        )
        return all(composed_epsilon({pair: releases}, delta) <= epsilon for pair in pairs)

    return Calibrated(
        sensitivity * _least_noise(is_within_budget, 1.0, 1e-7), "privacy loss distribution, Poisson-sampled Gaussian"
    )


def _least_noise(is_within_budget: Callable[[float], bool], guess: float, precision: float = _PRECISION) -> float:
    """Return the least noise within the budget, found by bisection to `precision` and rounded up."""
    high = guess
    while not is_within_budget(high):
        high *= 2
        if high > _MAX_NOISE:
            raise PrivacyError(
                "no noise scale keeps this many releases within the budget; make fewer releases, or set a larger ε or δ"
            )
    low = high / 2
    while is_within_budget(low):
        low, high = low / 2, low
        if low < 1 / _MAX_NOISE:
            return high
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_within_budget(middle) else (middle, high)
    return high
