"""Cost for a person with several units: an ε is for one unit, and one person may contribute many.

Units may be in the same releases, like the records of one device in its sums: then a release moves up to k times as
far. Or each unit is in releases of its own, like days that pay one after another: then their costs compose.
"""

import math
from collections.abc import Mapping

from sottovoce.accounting.events import Event
from sottovoce.accounting.gaussian import MAX_EPSILON, gaussian_epsilon, sum_epsilons
from sottovoce.accounting.sampled import SampledGaussian, sampled_epsilon

_STEPS = 60


def epsilon_apart(charges: Mapping[Event, int], units: int, delta: float) -> float:
    """Return ε of this many units, each in releases of its own; rounded up, infinite above MAX_EPSILON.

    Args:
        charges: charges of one unit, and how often each was made.
        units: k.
        delta: δ for all units together.
    """
    return _unit_epsilon({event: units * count for event, count in charges.items()}, delta)


def epsilon_together(charges: Mapping[Event, int], units: int, delta: float) -> float:
    """Return ε of this many units that are in the same releases; rounded up, infinite above MAX_EPSILON.

    A Gaussian release of k units has k times the μ, a pure one k times the ε. Releases of a random part of the units
    have two bounds, and the smaller is taken: the cost as if no unit were ever left out; and the bound that holds for
    every (ε′, δ′): k units have (kε′, k e^((k-1)ε′) δ′), see Vadhan 2017, Lemma 2.2.

    Args:
        charges: charges of one unit, and how often each was made.
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
    """Return ε if all units were in every release for which they might be drawn; never an underestimate."""
    mu_squared, pure = _closed_form_sums(
        {event: n for event, n in charges.items() if not isinstance(event, SampledGaussian)}
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
    """Return Σ μ² and Σ ε."""
    return (
        math.fsum(count * event.mu_squared for event, count in charges.items()),
        math.fsum(count * event.epsilon for event, count in charges.items()) * (1 + 2**-50),
    )
