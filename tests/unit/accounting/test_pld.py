"""Privacy loss distributions: a second library's answers, the closed form, and a direct computation of two releases."""

import math
from itertools import pairwise

import numpy as np
import pytest
from sottovoce.privacy.accounting.accountant import composed_delta, composed_epsilon
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon
from sottovoce.privacy.accounting.pairs import (
    AddedPair,
    FixedSizePair,
    GaussianPair,
    LaplacePair,
    Pair,
    PurePair,
    RemovedPair,
    ReplacedPair,
)
from sottovoce.privacy.accounting.pld import losses, outline

pytestmark = pytest.mark.slow

KNOWN_EPSILONS = [
    (0.01, 1.0, 1000, 1e-5, 1.82824, 2.84345),
    (0.01, 0.5, 100, 1e-5, 6.47621, 6.69821),
    (0.001, 1.0, 10_000, 1e-6, 0.55539, 0.91060),
]
EVERY_PAIR = [
    GaussianPair(0.7), RemovedPair(0.1, 1.3), AddedPair(0.1, 1.3), ReplacedPair(0.1, 1.3), FixedSizePair(0.1, 1.3),
    LaplacePair(0.4), PurePair(0.4)
]  # fmt: skip


def add_remove(rate: float, noise: float, releases: int, delta: float) -> float:
    return max(composed_epsilon({pair: releases}, delta) for pair in (RemovedPair(rate, noise), AddedPair(rate, noise)))


@pytest.mark.parametrize("rate, noise, releases, delta, add_remove_epsilon, replace_one_epsilon", KNOWN_EPSILONS)
def test_known_answers(
    rate: float, noise: float, releases: int, delta: float, add_remove_epsilon: float, replace_one_epsilon: float
) -> None:
    """ALGORITHMS.md 7.1. A multiplier of σ means the same norm for one record under both relations."""
    assert add_remove(rate, noise, releases, delta) == pytest.approx(add_remove_epsilon, rel=2e-3)
    assert composed_epsilon({ReplacedPair(rate, noise): releases}, delta) == pytest.approx(
        replace_one_epsilon, rel=2e-3
    )


@pytest.mark.parametrize("rate, noise, releases", [(0.01, 1.0, 30), (0.1, 2.0, 30), (0.5, 5.0, 10), (1.0, 3.0, 5)])
def test_epsilon_is_at_least_the_oracle_s_lower_estimate_and_close_to_its_upper(
    rate: float, noise: float, releases: int
) -> None:
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    lower, upper = (
        from_gaussian_mechanism(
            noise,
            pessimistic_estimate=upward,
            use_connect_dots=upward,
            sampling_prob=rate,
            log_mass_truncation_bound=-70,
        ).self_compose(releases)
        for upward in (False, True)
    )
    for delta in (1e-3, 1e-6, 1e-10):
        epsilon = add_remove(rate, noise, releases, delta)
        assert lower.get_epsilon_for_delta(delta) <= epsilon <= 1.005 * upper.get_epsilon_for_delta(delta)


@pytest.mark.parametrize(
    "mu, count, delta", [(1.0, 1, 1e-5), (0.1, 1000, 1e-10), (1e-3, 10**5, 1e-10), (1e-3, 10**6, 1e-15), (5, 1, 1e-3)]
)
def test_gaussian_losses_agree_with_the_closed_form_and_never_fall_below_it(
    mu: float, count: int, delta: float
) -> None:
    exact = gaussian_epsilon(mu * math.sqrt(count), delta)
    assert exact <= composed_epsilon({GaussianPair(mu): count}, delta) <= 1.005 * exact
    assert delta * 0.999 <= composed_delta({GaussianPair(mu): count}, exact) <= 1.3 * delta


@pytest.mark.parametrize("pair", EVERY_PAIR, ids=lambda pair: type(pair).__name__)
def test_a_discretised_loss_is_exact_at_grid_points_and_an_upper_bound_between_them(pair: Pair) -> None:
    on_grid = losses(pair, outline(pair).step)
    values = on_grid.values
    assert on_grid.masses.sum() + on_grid.infinity_mass == pytest.approx(1, abs=1e-12)
    assert (on_grid.masses >= 0).all()
    for epsilon in (*values[[len(values) // 2, -len(values) // 4]], 0.1234, 0.3):
        stored = float(on_grid.masses @ np.maximum(0, -np.expm1(epsilon - values))) + on_grid.infinity_mass
        exact = float(pair.profile(np.array([epsilon]))[0][0])
        assert exact - 1e-14 <= stored <= exact + 2e-3


@pytest.mark.parametrize("pair", EVERY_PAIR, ids=lambda pair: type(pair).__name__)
def test_profiles_are_convex_in_e_to_the_epsilon_and_decrease(pair: Pair) -> None:
    alpha = np.linspace(0.01, 4, 400)
    delta, _ = pair.profile(np.log(alpha))
    assert (np.diff(delta) <= 1e-15).all()
    assert (np.diff(delta, 2) >= -1e-12).all()


def test_two_sampled_releases_match_quadrature() -> None:
    """δ for two releases is the mean, over the first release's loss, of one release's δ at the remaining ε."""
    rate, noise = 0.3, 1.2
    x = np.linspace(-16, 17, 20_001)
    base, moved = (np.exp(-(((x - centre) / noise) ** 2) / 2) / noise / math.sqrt(2 * math.pi) for centre in (0, 1))
    mixed = (1 - rate) * base + rate * moved
    pair = RemovedPair(rate, noise)
    for epsilon in (0.2, 1.0, 2.5):
        exact = float(mixed @ pair.profile(epsilon - np.log(mixed / base))[0]) * (x[1] - x[0])
        assert exact * (1 - 1e-9) <= composed_delta({pair: 2}, epsilon) <= exact * 1.01


def test_a_fixed_batch_size_cannot_be_charged_in_one_direction() -> None:
    """An adversary who chooses the second query from the first answer beats both directions composed with themselves.

    With exactly 10 % of the records, noise multiplier 2, replace-one, at ε = 0.1: first as if the record were present
    or not (`RemovedPair`), then, where the loss has passed ε, the other way round.
    """
    rate, noise, epsilon = 0.1, 1.0, 0.1
    x = np.linspace(-12, 14, 20_001)
    base, moved = (np.exp(-((x - centre) ** 2) / 2) / math.sqrt(2 * math.pi) for centre in (0, 1))
    mixed = (1 - rate) * base + rate * moved
    either = FixedSizePair(rate, 2 * noise)
    adaptive = float(mixed @ either.profile(epsilon - np.log(mixed / base))[0]) * (x[1] - x[0])
    one_way = max(composed_delta({pair: 2}, epsilon) for pair in (RemovedPair(rate, noise), AddedPair(rate, noise)))
    assert one_way < 0.97 * adaptive
    assert adaptive <= composed_delta({either: 2}, epsilon)


def test_small_deltas_survive_rounding() -> None:
    """Fourier transforms of these distributions, untilted, are accurate to about 10⁻¹³."""
    epsilons = [composed_epsilon({RemovedPair(0.01, 1.0): 1000}, 10.0**-power) for power in range(6, 16)]
    assert all(1.0 < later - earlier + 1 < 1.6 for earlier, later in pairwise(epsilons))


def test_no_release_costs_nothing() -> None:
    assert composed_epsilon({}, 1e-5) == 0.0
    assert composed_epsilon({RemovedPair(0.1, 1.0): 0}, 1e-5) == 0.0
    assert composed_delta({}, 0.5) == 0.0
    assert composed_epsilon({RemovedPair(1e-4, 1.0): 1}, 1e-3) == 0.0


def test_invalid_queries_are_refused() -> None:
    for delta in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="delta"):
            composed_epsilon({GaussianPair(1.0): 1}, delta)
    for epsilon in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            composed_delta({GaussianPair(1.0): 1}, epsilon)


def test_beyond_the_reported_range_everything_is_infinite() -> None:
    assert composed_epsilon({RemovedPair(1.0, 0.04): 100}, 1e-5) == math.inf
    assert composed_epsilon({PurePair(400.0): 2}, 1e-5) == math.inf
