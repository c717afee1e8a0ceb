"""Compute the joint cost of several releases, in closed form if exact, otherwise from privacy loss distributions.

All releases touch the same unit. A ledger groups its charges by unit and adds up pure ε, for which `sampled_epsilon`
is enough. This module also composes pure releases through their privacy loss distributions.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.accountant import composed_delta, composed_epsilon
from sottovoce.privacy.accounting.events import Event, UnprovedRelease
from sottovoce.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon, sum_epsilons
from sottovoce.privacy.accounting.pairs import GaussianPair, Pair, PurePair
from sottovoce.privacy.accounting.sampled import SampledGaussian


@dataclass(frozen=True, slots=True)
class Release:
    """A release, represented by its dominating pairs.

    Attributes:
        mu_squared: μ² of a Gaussian release; otherwise 0.
        pure: pure ε; infinite if there is no guarantee, 0 if the release is not pure.
        pairs: the pair for the record's presence versus its absence, and the reverse; None for Gaussian releases.
    """

    mu_squared: float = 0.0
    pure: float = 0.0
    pairs: tuple[Pair, Pair] | None = None


@dataclass(frozen=True, slots=True)
class Composed:
    """The joint cost of releases; ε is infinite, or δ is 1, if there is no guarantee."""

    epsilon: float
    delta: float
    accountant: str


NO_GUARANTEE = Release(pure=math.inf)


def release_from_event(event: Event) -> Release:
    """Convert a ledger charge to a release that can be composed.

    Raises:
        PrivacyError: if the event kind is unknown.
    """
    if isinstance(event, UnprovedRelease) or math.isinf(event.mu_squared) or math.isinf(event.epsilon):
        return NO_GUARANTEE
    if isinstance(event, SampledGaussian):
        return NO_GUARANTEE if event.pairs is None else Release(pairs=event.pairs)
    if event.mu_squared > 0:
        return Release(mu_squared=event.mu_squared)
    if event.epsilon > 0:
        return Release(pure=event.epsilon, pairs=(PurePair(event.epsilon), PurePair(event.epsilon)))
    raise PrivacyError(f"the cost of the charge `{event.terms[:80]}` is unknown; use the program version that wrote it")


def compose(releases: Mapping[Release, int], delta: float) -> Composed:
    """Return ε at δ for all releases with the given counts, rounded up.

    Raises:
        PrivacyError: if δ is not in [0, 1), or is 0 although a release has no pure ε.
    """
    if not 0 <= delta < 1:
        raise PrivacyError(f"delta must be at least 0 and less than 1, got {delta}; try 1e-5")
    mu, pure, directions = _split_releases(releases)
    if math.isinf(pure) or math.isinf(mu):
        return Composed(math.inf, delta, "no guarantee")
    if delta == 0:
        if not all(release.pure > 0 for release in releases):
            raise PrivacyError("delta=0: Gaussian releases have no pure epsilon; set delta, for example 1e-5")
        return Composed(sum_epsilons(pure), 0.0, _describe_closed_form(0.0, pure))
    if directions is None:
        return Composed(
            sum_epsilons(gaussian_epsilon(mu, delta), *([pure] if pure else [])), delta, _describe_closed_form(mu, pure)
        )
    epsilon = max(composed_epsilon(direction, delta) for direction in directions)
    if _has_closed_form(releases) and (closed_form := sum_epsilons(gaussian_epsilon(mu, delta), pure)) <= epsilon:
        return Composed(closed_form, delta, _describe_closed_form(mu, pure))
    return Composed(epsilon, delta, "privacy loss distribution")


def compose_delta(releases: Mapping[Release, int], epsilon: float) -> Composed:
    """Return δ at ε for all releases with the given counts, rounded up.

    Raises:
        PrivacyError: if ε is negative or not finite.
    """
    if not 0 <= epsilon < math.inf:
        raise PrivacyError(f"epsilon must be finite and non-negative, got {epsilon}; try 1")
    mu, pure, directions = _split_releases(releases)
    if math.isinf(pure) or math.isinf(mu):
        return Composed(epsilon, 1.0, "no guarantee")
    if directions is None:
        remaining = math.nextafter(epsilon - pure, -math.inf) if mu else epsilon - pure
        return Composed(
            epsilon, gaussian_delta(remaining, mu) if remaining >= 0 else 1.0, _describe_closed_form(mu, pure)
        )
    delta = max(composed_delta(direction, epsilon) for direction in directions)
    if _has_closed_form(releases) and mu == 0 and pure <= epsilon:
        return Composed(epsilon, 0.0, _describe_closed_form(mu, pure))
    return Composed(epsilon, delta, "privacy loss distribution")


def _split_releases(
    releases: Mapping[Release, int],
) -> tuple[float, float, tuple[dict[Pair, int], dict[Pair, int]] | None]:
    """Return the total Gaussian μ, the total pure ε and, unless these two are enough, the pairs in both directions."""
    mu = math.sqrt(math.fsum(release.mu_squared * count for release, count in releases.items())) * (1 + 2.0**-50)
    pure = math.fsum(release.pure * count for release, count in releases.items()) if releases else 0.0
    paired = {release: count for release, count in releases.items() if release.pairs is not None and count > 0}
    if not math.isfinite(mu + pure) or not paired or (mu == 0 and sum(paired.values()) == 1 and pure > 0):
        return mu, pure, None
    directions: tuple[dict[Pair, int], dict[Pair, int]] = {}, {}
    for release, count in paired.items():
        for direction, pair in zip(directions, release.pairs or (), strict=True):
            direction[pair] = direction.get(pair, 0) + count
    for direction in directions:
        if mu > 0:
            direction[GaussianPair(mu)] = 1
    return mu, pure, directions


def _has_closed_form(releases: Mapping[Release, int]) -> bool:
    """Return whether the Gaussian closed form and the sum of pure ε cover all releases."""
    return all(release.mu_squared > 0 or release.pure > 0 for release in releases)


def _describe_closed_form(mu: float, pure: float) -> str:
    return " + ".join(["Gaussian closed form"] * (mu > 0) + ["pure: the ε are summed"] * (pure > 0) or ["no releases"])
