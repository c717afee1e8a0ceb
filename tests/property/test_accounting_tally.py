"""A tally against plain sums over every unit, for any events over any units."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st
from sottovoce.privacy.accounting.events import Event, GaussianSum, PureRelease, RecordReleased, with_units
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon
from sottovoce.privacy.accounting.tally import Tally
from sottovoce.privacy.accounting.units import EVERY, LAST, Units

DELTA = 1e-5
NAMED_UNITS = range(9)  # units below 9 are drawn; 50 stands for all that are never named

numbers = st.sets(st.integers(0, 8), min_size=1).map(Units.of)
units = st.one_of(st.just(EVERY), numbers, numbers)
sums = st.builds(GaussianSum, st.integers(1, 10**6), st.integers(3_000, 60_000), units)
pure = st.builds(
    lambda scale, where: PureRelease("laplace", 1, 3, 1000, scale, 1000 / scale * (1 + 1e-15), where),
    st.integers(500, 10**6),
    units,
)
single = st.builds(RecordReleased, st.integers(0, 8), st.just("privunit"), st.just(3), st.just(2), st.floats(1e-6, 1.5))
events = st.lists(st.one_of(sums, pure, single), max_size=20)


def affects(event: Event, unit: int) -> bool:
    return any(first <= unit <= last for first, last in event.units.spans)


def unit_epsilon(charged: list[Event], unit: int) -> float:
    unit_events = [event for event in charged if affects(event, unit)]
    mu = math.sqrt(math.fsum(event.mu_squared for event in unit_events))
    return gaussian_epsilon(mu, DELTA) + math.fsum(event.epsilon for event in unit_events)


def is_tight_upper_bound(value: float, expected: float) -> bool:
    return math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-300) and value >= expected * (1 - 1e-14)


def make_tally(charged: list[Event]) -> Tally:
    tally = Tally(DELTA)
    for event in charged:
        tally.add(event)
    return tally


@pytest.mark.slow
@given(events, numbers)
@settings(max_examples=150)
def test_tally_finds_the_most_expensive_unit(charged: list[Event], queried: Units) -> None:
    tally = make_tally(charged)
    assert is_tight_upper_bound(tally.epsilon(), max(unit_epsilon(charged, unit) for unit in (*NAMED_UNITS, 50)))
    expected = max(unit_epsilon(charged, unit) for unit in NAMED_UNITS if any(a <= unit <= b for a, b in queried.spans))
    assert is_tight_upper_bound(tally.epsilon(queried), expected)


@given(events, st.one_of(sums, pure), st.floats(0.1, 5.0))
@settings(max_examples=150)
def test_payable_returns_exactly_the_units_within_budget(charged: list[Event], event: Event, budget: float) -> None:
    tally = make_tally(charged)
    payable_units = tally.payable_units(event, budget)
    affordable = {
        unit
        for unit in (*NAMED_UNITS, 50)
        if affects(event, unit) and _make_budget_check([*charged, event], unit)(budget)
    }
    if event.units == EVERY:
        assert (payable_units == EVERY) == (len(affordable) == 10)
        assert payable_units in (EVERY, None)
    else:
        assert (set() if payable_units is None else set(_list_units(payable_units))) == affordable
        if payable_units is not None:
            tally.add(with_units(event, payable_units))
            assert tally.epsilon(payable_units) <= budget


@given(events, st.one_of(sums, pure, single))
def test_more_events_never_cost_less_and_queries_change_nothing(charged: list[Event], event: Event) -> None:
    tally = make_tally(charged)
    before = [tally.epsilon(Units.of([unit])) for unit in NAMED_UNITS]
    assert before == [tally.epsilon(Units.of([unit])) for unit in NAMED_UNITS]
    queried = tally.epsilon(event.units, event)
    tally.add(event)
    after = [tally.epsilon(Units.of([unit])) for unit in NAMED_UNITS]
    assert queried == tally.epsilon(event.units)
    for unit in NAMED_UNITS:
        assert after[unit] >= before[unit]
        assert after[unit] == before[unit] or affects(event, unit), "an event costs the units it touches, no others"


@given(st.integers(1, 10**6), st.integers(100, 60_000), st.integers(1, 40))
def test_less_noise_never_costs_less(sensitivity: int, sigma: int, count: int) -> None:
    noisier, quieter = (make_tally([GaussianSum(sensitivity, noise)] * count) for noise in (sigma + 1, sigma))
    assert quieter.epsilon() >= noisier.epsilon()


def _list_units(found: Units) -> list[int]:
    return [unit for first, last in found.spans for unit in range(first, min(last, 8) + 1)]


def _make_budget_check(charged: list[Event], unit: int) -> Callable[[float], bool]:
    """Return a function that checks a unit's cost, as computed by a tally, against a budget.

    The tally rounds up by a few units in the last place, so plain sums may differ from it there.
    """
    cost = make_tally(charged).epsilon(Units(((unit, unit),)))
    return lambda budget: cost <= budget


def test_units_are_stored_as_ascending_runs() -> None:
    assert Units.of([5, 3, 4, 9]).spans == ((3, 5), (9, 9))
    assert EVERY.spans == ((0, LAST),)
