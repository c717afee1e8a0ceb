"""Composition: closed forms where they are exact, loss distributions elsewhere, nothing for unknown events."""

import math

import pytest
from sottovoce.calculator.composition import NO_GUARANTEE, Release, compose, compose_delta, release_from_event
from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.discrete import DiscreteGaussian
from sottovoce.privacy.accounting.events import GaussianSum, PureRelease, RecordReleased, UnprovedRelease
from sottovoce.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon
from sottovoce.privacy.accounting.pairs import AddedPair, LaplacePair, PurePair, RemovedPair
from sottovoce.privacy.accounting.sampled import SampledGaussian

SAMPLED = Release(pairs=(RemovedPair(0.01, 1.0), AddedPair(0.01, 1.0)))


def laplace(epsilon: float) -> Release:
    return Release(pure=epsilon, pairs=(LaplacePair(epsilon), LaplacePair(epsilon)))


@pytest.mark.parametrize("sigma, releases, epsilon", [(1, 1, 4.37718), (2, 10, 7.51128), (5, 100, 9.99726)])
def test_gaussian_releases_use_the_closed_form(sigma: float, releases: int, epsilon: float) -> None:
    result = compose({Release(mu_squared=sigma**-2): releases}, 1e-5)
    assert result.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert result.accountant == "Gaussian closed form"
    assert compose_delta({Release(mu_squared=1.0): 1}, 1.0).delta == pytest.approx(gaussian_delta(1.0, 1.0))


def test_one_pure_release_needs_no_delta_and_several_cost_less_together() -> None:
    assert compose({laplace(0.5): 1}, 1e-9).epsilon == 0.5
    assert compose_delta({laplace(0.5): 1}, 0.5).delta == 0.0
    assert compose_delta({laplace(0.25): 2}, 0.5).delta == 0.0
    many = compose({laplace(0.05): 300}, 1e-5)
    assert 3.5 < many.epsilon < 3.7 < 15
    assert many.accountant == "privacy loss distribution"
    assert compose_delta({laplace(0.05): 300}, many.epsilon).delta == pytest.approx(1e-5, rel=0.02)


def test_laplace_releases_agree_with_a_second_library() -> None:
    from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism

    expected = from_laplace_mechanism(5.0).self_compose(40).get_epsilon_for_delta(1e-6)
    assert compose({laplace(0.2): 40}, 1e-6).epsilon == pytest.approx(expected, rel=3e-3)


def test_mixed_releases_cost_less_than_the_sum_of_their_costs() -> None:
    parts = {SAMPLED: 500, Release(mu_squared=0.01): 3, laplace(0.1): 2}
    together = compose(parts, 1e-5).epsilon
    apart = math.fsum(compose({part: count}, 1e-5 / 3).epsilon for part, count in parts.items())
    assert max(compose({part: count}, 1e-5).epsilon for part, count in parts.items()) < together < apart


def test_a_single_number_with_discrete_noise_is_charged_exactly() -> None:
    """σ = 2, ε = 1; the continuous distribution with the same σ has 0.00682959."""
    law = DiscreteGaussian(2.0, 1)
    assert compose_delta({Release(pairs=(law, law)): 1}, 1.0).delta == pytest.approx(0.00724878, rel=1e-5)


def test_charges_from_a_ledger_are_accepted() -> None:
    assert release_from_event(GaussianSum(100, 50)).mu_squared == GaussianSum(100, 50).mu_squared
    assert release_from_event(GaussianSum(100, 4)) == NO_GUARANTEE
    assert release_from_event(UnprovedRelease("none")) == NO_GUARANTEE
    assert release_from_event(RecordReleased(0, "privunit", 3, 4, 0.7)) == Release(
        pure=0.7, pairs=(PurePair(0.7), PurePair(0.7))
    )
    assert release_from_event(PureRelease("laplace", 1, 2, 1, 4, 0.25)).pure == 0.25
    charge = SampledGaussian(2**24, 2**12, "poisson", 10, 1000, "add-remove")
    assert compose({release_from_event(charge): 1000}, 1e-5).epsilon == pytest.approx(1.82824, rel=2e-3)
    assert release_from_event(SampledGaussian(2**24, 4, "poisson", 10, 1000, "add-remove")) == NO_GUARANTEE


def test_unproved_releases_guarantee_nothing() -> None:
    assert compose({NO_GUARANTEE: 1, SAMPLED: 1}, 1e-5).epsilon == math.inf
    assert compose_delta({NO_GUARANTEE: 1}, 3.0).delta == 1.0
    assert compose({}, 1e-5).epsilon == 0.0
    assert gaussian_epsilon(0.0, 1e-5) == 0.0


def test_invalid_queries_are_refused() -> None:
    with pytest.raises(PrivacyError, match="delta"):
        compose({SAMPLED: 1}, 0.0)
    with pytest.raises(PrivacyError, match="epsilon"):
        compose_delta({SAMPLED: 1}, -1.0)

    class Free:
        units = mu_squared = epsilon = 0
        terms = "{}"

    with pytest.raises(PrivacyError, match=r"charge.*unknown"):
        release_from_event(Free())  # type: ignore[arg-type]
