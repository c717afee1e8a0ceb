"""Compute the privacy cost to a person who contributes several units, because an ε covers only one unit.

Units may share releases, as a device's records share its sums; k units can then change a release by up to k times as
much as one unit can. Days share sums, too: a device that follows a feed learns from every day that has budget left, so
a sum covers up to 48 days. Alternatively, each unit has its own releases, as a device has that adds its own noise; the
units' costs then compose.
"""

import math
from collections.abc import Mapping

from sottovoce.privacy.accounting.events import Event
from sottovoce.privacy.accounting.gaussian import MAX_EPSILON, gaussian_epsilon, sum_epsilons
from sottovoce.privacy.accounting.sampled import SampledGaussian, sampled_epsilon

_STEPS = 60


def epsilon_in_separate_releases(charges: Mapping[Event, int], units: int, delta: float) -> float:
    """Return the ε of k units in separate releases, rounded up; infinite above MAX_EPSILON.

    Args:
        charges: charges to one unit, and how often each was made.
        units: k.
        delta: δ for all units together.
    """
    return _unit_epsilon({event: units * count for event, count in charges.items()}, delta)


def epsilon_in_shared_releases(charges: Mapping[Event, int], units: int, delta: float) -> float:
    """Return the ε of k units in the same releases, rounded up; infinite above MAX_EPSILON.

    For k units, a Gaussian release has k times the μ and a pure release has k times the ε. If releases use a random
    subset of the units, the result is the smaller of two bounds. The first is the cost if every unit were always
    included. The second is group privacy, which holds for every (ε′, δ′): k units have (kε′, k e^((k-1)ε′) δ′)
    (Vadhan 2017, Lemma 2.2).

    Args:
        charges: charges to one unit, and how often each was made.
        units: k.
        delta: δ for all units together.
    """
    if not any(isinstance(event, SampledGaussian) for event in charges):
        mu_squared, pure = _closed_form_sums(charges)
        return sum_epsilons(gaussian_epsilon(units * math.sqrt(mu_squared) * (1 + 2**-50), delta), units * pure)
    always = _epsilon_without_sampling(charges, units, delta)
    low, high = 0.0, MAX_EPSILON / units
    if not _is_private(charges, units, delta, high):
        return always
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _is_private(charges, units, delta, middle) else (middle, high)
    return min(always, units * high)


def _epsilon_without_sampling(charges: Mapping[Event, int], units: int, delta: float) -> float:
    """Return ε as if every unit were included in every sampled release; never an underestimate."""
    mu_squared, pure = _closed_form_sums(
        {event: repeats for event, repeats in charges.items() if not isinstance(event, SampledGaussian)}
    )
    for event, count in charges.items():
        if isinstance(event, SampledGaussian):
            mu_squared += count * (event.distance / event.noise) ** 2
    return sum_epsilons(gaussian_epsilon(units * math.sqrt(mu_squared) * (1 + 2**-48), delta), units * pure)


def _is_private(charges: Mapping[Event, int], units: int, delta: float, epsilon: float) -> bool:
    """Return whether one unit is (ε′, δ′)-private, for the δ′ at which k units are (kε′, δ)-private."""
    exponent = math.log(delta) - math.log(units) - (units - 1) * epsilon
    return exponent > math.log(1e-300) and _unit_epsilon(charges, math.exp(exponent)) <= epsilon


def _unit_epsilon(charges: Mapping[Event, int], delta: float) -> float:
    sampled = {event: count for event, count in charges.items() if isinstance(event, SampledGaussian)}
    mu_squared, pure = _closed_form_sums(charges)
    if sampled and math.isfinite(pure):
        return sampled_epsilon(mu_squared, pure, sampled, delta)
    return sum_epsilons(gaussian_epsilon(math.sqrt(mu_squared) * (1 + 2**-50), delta), pure)


def _closed_form_sums(charges: Mapping[Event, int]) -> tuple[float, float]:
    """Return Σ μ² and Σ ε over all charges."""
    return (
        math.fsum(count * event.mu_squared for event, count in charges.items()),
        math.fsum(count * event.epsilon for event, count in charges.items()) * (1 + 2**-50),
    )
