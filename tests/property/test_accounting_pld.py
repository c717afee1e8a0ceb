"""Loss distributions: more releases, less noise, a smaller δ never cost less; relations order; queries change nothing.

Results on two grids differ by each grid's rounding, which the margins allow for.
"""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st
from sottovoce.privacy.accounting.accountant import composed_delta, composed_epsilon
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon
from sottovoce.privacy.accounting.pairs import (
    AddedPair,
    FixedSizePair,
    GaussianPair,
    LaplacePair,
    Pair,
    RemovedPair,
    ReplacedPair,
)
from sottovoce.privacy.accounting.sampled import SampledGaussian, is_affordable, sampled_epsilon

rates = st.floats(-3, 0).map(lambda power: 10**power)
noises = st.floats(0.4, 20)
counts = st.integers(1, 3000)
deltas = st.floats(-10, -3).map(lambda power: 10**power)
kinds = st.sampled_from([RemovedPair, AddedPair, ReplacedPair, FixedSizePair])
GRID = 1.006  # two answers on different grids
ROUNDING = 1 + 1e-6  # two answers on one

fewer_examples = settings(max_examples=40)


@fewer_examples
@given(kinds, rates, noises, counts, deltas, st.integers(1, 50))
def test_more_releases_never_cost_less(
    kind: Callable[[float, float], Pair], rate: float, noise: float, count: int, delta: float, more: int
) -> None:
    pair = kind(rate, noise)
    assert composed_epsilon({pair: count}, delta) <= composed_epsilon({pair: count + more}, delta) * ROUNDING + 1e-9


@pytest.mark.slow
@fewer_examples
@given(rates, noises, rates, noises, st.integers(1, 300), st.floats(1e-3, 2), deltas)
def test_additional_releases_of_another_kind_never_cost_less(
    rate: float, noise: float, other_rate: float, other_noise: float, count: int, extra: float, delta: float
) -> None:
    less: dict[Pair, int] = {RemovedPair(rate, noise): count}
    for more in (RemovedPair(other_rate, other_noise), GaussianPair(extra), LaplacePair(extra)):
        longer = {**less, more: less.get(more, 0) + 1}
        assert composed_epsilon(less, delta) <= composed_epsilon(longer, delta) * ROUNDING + 1e-9


@fewer_examples
@given(kinds, rates, noises, counts, deltas, st.floats(1.02, 3))
def test_less_noise_and_a_smaller_delta_never_cost_less(
    kind: Callable[[float, float], Pair], rate: float, noise: float, count: int, delta: float, factor: float
) -> None:
    epsilon = composed_epsilon({kind(rate, noise): count}, delta)
    assert composed_epsilon({kind(rate, noise * factor): count}, delta) <= epsilon * GRID + 1e-6
    assert epsilon <= composed_epsilon({kind(rate, noise): count}, delta / factor) * ROUNDING + 1e-9


@pytest.mark.slow
@fewer_examples
@given(rates, noises, counts, deltas)
def test_relations_are_ordered_by_cost(rate: float, noise: float, count: int, delta: float) -> None:
    """Order: add/remove, replace-one, add/remove at half the noise, fixed size, every record in every sum."""
    add_remove, add_remove_half_noise = (
        max(composed_epsilon({pair: count}, delta) for pair in (RemovedPair(rate, z), AddedPair(rate, z)))
        for z in (noise, noise / 2)
    )
    replace_one = composed_epsilon({ReplacedPair(rate, noise): count}, delta)
    fixed_size = composed_epsilon({FixedSizePair(rate, noise): count}, delta)
    full_sums = gaussian_epsilon(2 / noise * count**0.5, delta)
    for less, more in pairwise((add_remove, replace_one, add_remove_half_noise, fixed_size, full_sums)):
        assert less <= more * GRID + 1e-6


@fewer_examples
@given(kinds, rates, noises, counts, deltas)
def test_composed_delta_inverts_composed_epsilon(
    kind: Callable[[float, float], Pair], rate: float, noise: float, count: int, delta: float
) -> None:
    pair = kind(rate, noise)
    epsilon = composed_epsilon({pair: count}, delta)
    if 0.01 < epsilon < 50:
        assert composed_delta({pair: count}, epsilon) == pytest.approx(delta, rel=0.02)
        assert composed_delta({pair: count}, epsilon * 1.01) <= delta
    assert composed_epsilon({pair: count}, delta) == epsilon


@pytest.mark.slow
@fewer_examples
@given(st.integers(1, 400), st.floats(0, 1), st.floats(0, 1), st.floats(0.5, 4))
def test_is_affordable_agrees_with_the_cost(count: int, mu_squared: float, pure: float, budget: float) -> None:
    charge = {SampledGaussian(2**24, 2**12, "poisson", 1, 50, "add-remove"): count}
    cost = sampled_epsilon(mu_squared, pure, charge, 1e-5)
    if abs(cost - budget) > 1e-5:
        assert is_affordable(budget, mu_squared, pure, charge, 1e-5) == (cost <= budget)
