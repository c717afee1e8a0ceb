"""Guards: each detects one kind of wrong reading."""

from collections.abc import Callable

import pytest
from sottovoce.days import NOT_BEFORE
from sottovoce.errors import MessageRefused
from sottovoce_home.meters.clock import Clock
from sottovoce_home.meters.guards import FreshnessGuard, OrderGuard, RangeGuard, SingleTopicGuard

NOW = NOT_BEFORE + 1e6


def refusal_reason(check: Callable[[], object]) -> str:
    with pytest.raises(MessageRefused) as exc_info:
        check()
    return exc_info.value.reason


class TestFreshnessGuard:
    def test_a_retained_message_without_a_time_may_have_any_age(self) -> None:
        fresh = FreshnessGuard(600.0, 900.0, replay=False)
        assert refusal_reason(lambda: fresh.check(True, None, NOW)) == "retained"
        fresh.check(False, None, NOW)

    def test_a_recent_retained_message_counts(self) -> None:
        fresh = FreshnessGuard(600.0, 900.0, replay=False)
        fresh.check(True, NOW - 600.0, NOW)
        assert refusal_reason(lambda: fresh.check(True, NOW - 601.0, NOW)) == "retained"

    def test_a_meter_with_a_wrong_clock_is_refused(self) -> None:
        fresh = FreshnessGuard(600.0, 900.0, replay=False)
        assert refusal_reason(lambda: fresh.check(False, NOW - 1000.0, NOW)) == "stale"
        assert refusal_reason(lambda: fresh.check(False, NOW + 301.0, NOW)) == "ahead"
        fresh.check(False, NOW - 800.0, NOW)
        fresh.check(False, NOW + 299.0, NOW)

    def test_a_reading_may_be_as_late_as_declared(self) -> None:
        fresh = FreshnessGuard(600.0, 2 * 86_400.0, replay=False)
        fresh.check(False, NOW - 2 * 86_400.0, NOW)
        assert refusal_reason(lambda: fresh.check(False, NOW - 2 * 86_400.0 - 1, NOW)) == "stale"

    def test_a_replay_accepts_the_past_but_not_the_future(self) -> None:
        fresh = FreshnessGuard(600.0, 900.0, replay=True)
        fresh.check(False, 1_356_998_400.0, NOW)
        assert refusal_reason(lambda: fresh.check(False, NOW + 301.0, NOW)) == "ahead"
        assert refusal_reason(lambda: fresh.check(True, 1_356_998_400.0, NOW)) == "retained", "from the previous replay"


def test_each_measurement_is_later_than_the_previous_one() -> None:
    newer = OrderGuard()
    newer.check(10.0)
    assert refusal_reason(lambda: newer.check(10.0)) == "not-newer"
    assert refusal_reason(lambda: newer.check(9.0)) == "not-newer"
    newer.check(10.5)


def test_filter_accepts_only_one_topic() -> None:
    one = SingleTopicGuard()
    one.check("a/1")
    assert refusal_reason(lambda: one.check("a/2")) == "another-topic"
    one.check("a/1")


@pytest.mark.parametrize("watts", [-0.1, 10_000.1, float("nan"), float("inf")])
def test_a_power_must_be_within_its_range(watts: float) -> None:
    guard = RangeGuard(10_000.0, net=False)
    guard.check(0.0)
    guard.check(10_000.0)
    assert refusal_reason(lambda: guard.check(watts)) == "range"


class TestClock:
    def test_an_unset_clock_refuses_readings(self) -> None:
        clock = Clock()
        assert refusal_reason(lambda: clock.to_unix_time(12.0, 12.0)) == "clock-unset"
        assert clock.to_unix_time(13.0, NOW) == (NOW, False)

    def test_only_the_monotonic_clock_measures_durations(self) -> None:
        clock = Clock()
        clock.to_unix_time(100.0, NOW)
        assert clock.to_unix_time(110.0, NOW + 11.5) == (NOW + 10.0, False), "the wall clock may wander"

    def test_a_clock_change_is_detected(self) -> None:
        clock = Clock()
        clock.to_unix_time(100.0, NOW)
        assert clock.to_unix_time(110.0, NOW + 3600.0) == (NOW + 3600.0, True)
        assert clock.to_unix_time(120.0, NOW + 3610.0) == (NOW + 3610.0, False)
        assert clock.to_unix_time(130.0, NOW + 20.0) == (NOW + 20.0, True), "back again"
