"""Calibration of clipped sums over random batches, with the least noise that keeps all sums within the budget."""

import math
from functools import lru_cache
from typing import Literal, cast

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.gaussian import allowed_mu
from sottovoce.privacy.accounting.sampled import SampledGaussian, sampled_epsilon
from sottovoce.privacy.mechanisms.clipped_sum import (
    DISTANCES,
    MAX_SQUARED_UNITS,
    DiscreteGaussian,
    check_grid_range,
    grid_exponent,
    squared_record_distance,
)
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import MAX_SIGMA

_STEPS = 40  # maximum number of bisections; nine halvings of a factor 2 reach the tolerance
_TOLERANCE = 1.002  # ratio of the noise to the least that is within the budget


def calibrate_sampled(
    *,
    clip: float,
    size: int,
    releases: int,
    epsilon: float,
    delta: float,
    neighbouring: str,
    batch: int,
    of: int,
    sum_error: float | None = None,
) -> tuple[DiscreteGaussian, SampledGaussian]:
    """Return a mechanism with nearly the least noise for which `releases` Poisson sums cost at most (epsilon, delta).

    Args:
        clip: per-record L2 clip norm C.
        size: number of values in a release.
        releases: number of such releases that the budget covers.
        epsilon: total ε.
        delta: total δ.
        neighbouring: `add-remove` or `replace-one`.
        batch: numerator of the sample rate.
        of: denominator of the sample rate.
        sum_error: rounding error of a kernel that clips and sums; see `clipped_sum.calibrate`.

    Returns:
        The mechanism, and the cost of one of its releases.

    Raises:
        PrivacyError: if the budget, the relation, the sample rate or the clip norm is invalid, or outside the grid's
            range.
    """
    if releases < 1 or not 1 <= batch <= of:
        raise PrivacyError(
            "sampled sums require at least one release, and a batch of between 1 record and all records; set "
            "learner.batch"
        )
    if neighbouring not in DISTANCES:
        raise PrivacyError(f"unknown neighbouring relation `{neighbouring}`; use one of {', '.join(DISTANCES)}")
    check_grid_range(size, clip)
    relation = cast(Literal["add-remove", "replace-one"], neighbouring)
    multiplier = min_multiplier(releases, epsilon, delta, relation, batch, of)
    exponent = grid_exponent(multiplier * clip, clip, size, sum_error)
    clip_squared = squared_record_distance(clip, exponent, size, sum_error)
    sigma = math.ceil(multiplier * math.sqrt(clip_squared)) + 1
    if sigma > MAX_SIGMA or clip_squared > MAX_SQUARED_UNITS:
        raise PrivacyError(
            f"ε = {epsilon:g} over {releases} releases of {size} numbers requires more noise than the grid "
            "allows; increase privacy.epsilon or reduce learner.steps"
        )
    event = SampledGaussian(clip_squared, sigma, "poisson", batch, of, relation)
    while sampled_epsilon(0.0, 0.0, {event: releases}, delta) > epsilon:
        sigma += max(1, sigma // 1000)
        event = SampledGaussian(clip_squared, sigma, "poisson", batch, of, relation)
    sensitivity_squared = DISTANCES[neighbouring] ** 2 * clip_squared
    return DiscreteGaussian(
        size, exponent, clip_squared, sensitivity_squared, sigma, is_presummed=sum_error is not None
    ), event


@lru_cache(maxsize=64)
def min_multiplier(
    releases: int,
    epsilon: float,
    delta: float,
    neighbouring: Literal["add-remove", "replace-one"],
    batch: int,
    of: int,
) -> float:
    """Return a noise multiplier at most 0.2 % above the minimum, by bisection, since more noise never costs more."""

    def is_within_budget(multiplier: float) -> bool:
        units = 2**20
        event = SampledGaussian(units * units, math.ceil(multiplier * units), "poisson", batch, of, neighbouring)
        return sampled_epsilon(0.0, 0.0, {event: releases}, delta) <= epsilon

    # The first multiplier is sufficient even without sampling.
    high = DISTANCES[neighbouring] * math.sqrt(releases) / allowed_mu(epsilon, delta) * 1.01
    low = high
    while is_within_budget(low):
        high, low = low, low / 2
        if low < 2.0**-10:
            break
    for _ in range(_STEPS):
        if high <= low * _TOLERANCE:
            break
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_within_budget(middle) else (middle, high)
    return high
