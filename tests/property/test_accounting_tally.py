"""A tally against plain sums over every unit, for any events over any units."""

import math
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from sottovoce.accounting.events import Event, GaussianSum, PureRelease, RecordReleased, with_units
from sottovoce.accounting.gaussian import gaussian_epsilon
from sottovoce.accounting.tally import Tally
from sottovoce.accounting.units import EVERY, LAST, Units

DELTA = 1e-5
SEEN = range(9)  # units below 9 are drawn; 50 stands for all that are never named

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


def touched(event: Event, unit: int) -> bool:
    return any(first <= unit <= last for first, last in event.units.spans)


def plainly(paid: list[Event], unit: int) -> float:
    own = [event for event in paid if touched(event, unit)]
    mu = math.sqrt(math.fsum(event.mu_squared for event in own))
    return gaussian_epsilon(mu, DELTA) + math.fsum(event.epsilon for event in own)


def near(value: float, expected: float) -> bool:
    return math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-300) and value >= expected * (1 - 1e-14)


def tally_of(paid: list[Event]) -> Tally:
    tally = Tally(DELTA)
    for event in paid:
        tally.add(event)
    return tally


@given(events, numbers)
@settings(max_examples=150)
def test_the_dearest_unit_is_found(paid: list[Event], asked: Units) -> None:
    tally = tally_of(paid)
    assert near(tally.epsilon(), max(plainly(paid, unit) for unit in (*SEEN, 50)))
    among = max(plainly(paid, unit) for unit in SEEN if any(a <= unit <= b for a, b in asked.spans))
    assert near(tally.epsilon(asked), among)


@given(events, st.one_of(sums, pure), st.floats(0.1, 5.0))
@settings(max_examples=150)
def test_exactly_those_units_pay_that_can(paid: list[Event], event: Event, budget: float) -> None:
    tally = tally_of(paid)
    payable_units = tally.payable_units(event, budget)
    can = {unit for unit in (*SEEN, 50) if touched(event, unit) and _fits([*paid, event], unit)(budget)}
    if event.units == EVERY:
        assert (payable_units == EVERY) == (len(can) == 10)
        assert payable_units in (EVERY, None)
    else:
        assert (set() if payable_units is None else set(_members(payable_units))) == can
        if payable_units is not None:
            tally.add(with_units(event, payable_units))
            assert tally.epsilon(payable_units) <= budget


@given(events, st.one_of(sums, pure, single))
def test_more_never_costs_less_and_asking_changes_nothing(paid: list[Event], event: Event) -> None:
    tally = tally_of(paid)
    before = [tally.epsilon(Units.of([unit])) for unit in SEEN]
    assert before == [tally.epsilon(Units.of([unit])) for unit in SEEN]
    asked = tally.epsilon(event.units, event)
    tally.add(event)
    after = [tally.epsilon(Units.of([unit])) for unit in SEEN]
    assert asked == tally.epsilon(event.units)
    for unit in SEEN:
        assert after[unit] >= before[unit]
        assert after[unit] == before[unit] or touched(event, unit), "an event costs the units it touches, no others"


@given(st.integers(1, 10**6), st.integers(100, 60_000), st.integers(1, 40))
def test_less_noise_never_costs_less(sensitivity: int, sigma: int, count: int) -> None:
    noisier, quieter = (tally_of([GaussianSum(sensitivity, noise)] * count) for noise in (sigma + 1, sigma))
    assert quieter.epsilon() >= noisier.epsilon()


def _members(found: Units) -> list[int]:
    return [unit for first, last in found.spans for unit in range(first, min(last, 8) + 1)]


def _fits(paid: list[Event], unit: int) -> Callable[[float], bool]:
    """Within the budget, as the tally itself says for this unit: the bound is rounded up by a few units in the last
    place, so that plain sums may differ from it there."""
    own = tally_of(paid).epsilon(Units(((unit, unit),)))
    return lambda budget: own <= budget


def test_a_set_of_units_is_of_ascending_runs() -> None:
    assert Units.of([5, 3, 4, 9]).spans == ((3, 5), (9, 9))
    assert EVERY.spans == ((0, LAST),)
