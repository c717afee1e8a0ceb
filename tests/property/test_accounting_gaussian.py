"""Gaussian accountant: more budget or noise never costs more, and inverses are inverses, on the safe side."""

from hypothesis import given, strategies as st
from sottovoce.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu

epsilons = st.floats(1e-3, 400)
mus = st.floats(1e-3, 30)
deltas = st.floats(-25, -0.1).map(lambda power: 10**power)
growth = st.floats(1.001, 10)


@given(epsilons, mus, growth)
def test_delta_falls_with_epsilon_and_rises_with_mu(epsilon: float, mu: float, factor: float) -> None:
    assert 0 <= gaussian_delta(epsilon * factor, mu) <= gaussian_delta(epsilon, mu) <= 1
    assert gaussian_delta(epsilon, mu) <= gaussian_delta(epsilon, mu * factor)


@given(mus, deltas, growth)
def test_epsilon_falls_with_delta_and_rises_with_mu(mu: float, delta: float, factor: float) -> None:
    assert gaussian_epsilon(mu, min(0.9, delta * factor)) <= gaussian_epsilon(mu, delta)
    assert gaussian_epsilon(mu, delta) <= gaussian_epsilon(mu * factor, delta)


@given(epsilons, deltas, growth)
def test_a_larger_budget_allows_more(epsilon: float, delta: float, factor: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert mu <= gaussian_mu(min(500.0, epsilon * factor), delta)
    assert mu <= gaussian_mu(epsilon, min(0.9, delta * factor))


@given(epsilons, deltas)
def test_gaussian_mu_is_the_largest_within_the_budget(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, mu * (1 + 1e-5)) > delta
    assert gaussian_epsilon(mu, delta) <= epsilon * (1 + 1e-9)


@given(mus, deltas)
def test_gaussian_epsilon_is_the_smallest_that_suffices(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    if 0 < epsilon <= 500:
        assert gaussian_delta(epsilon, mu) <= delta < gaussian_delta(epsilon * (1 - 1e-6), mu)
