"""Guards: each detects one kind of wrong reading."""

from collections.abc import Callable

import pytest
from sottovoce.days import NOT_BEFORE
from sottovoce.errors import MessageRefused
from sottovoce_home.meters.clock import Clock
from sottovoce_home.meters.guards import CounterGuard, FreshnessGuard, OrderGuard, RangeGuard, SingleTopicGuard

NOW = NOT_BEFORE + 1e6


def refusal_reason(check: Callable[[], object]) -> str:
    with pytest.raises(MessageRefused) as exc_info:
        check()
    return exc_info.value.reason


class TestCounterGuard:
    def rising(self, resolution: float = 0.0, *, is_only_counter: bool = True, net: bool = False) -> CounterGuard:
        return CounterGuard(10_000.0, resolution, is_only_counter=is_only_counter, net=net)

    def test_a_count_begins_with_its_first_value_above_0(self) -> None:
        rising = self.rising()
        assert refusal_reason(lambda: rising.check(0, 0.0)) == "zero-start"
        assert not rising.check(10, 500.0), "a first reading continues nothing"
        assert rising.check(20, 500.0)

    def test_a_0_among_several_counters_is_a_value(self) -> None:
        rising = self.rising(is_only_counter=False)
        assert not rising.check(0, 0.0)
        assert rising.check(10, 1.0)

    def test_a_falling_reading_is_refused_and_the_count_continues(self) -> None:
        rising = self.rising()
        rising.check(0, 500.0)
        for tick in (10, 20, 30, 40):
            assert refusal_reason(lambda tick=tick: rising.check(tick, 499.0)) == "fell"  # type: ignore[misc]
            assert rising.check(tick + 5, 500.0 + tick)
        assert rising.restarts == 0

    def test_a_replaced_meter_begins_a_new_count_with_its_third_reading(self) -> None:
        rising = self.rising()
        rising.check(0, 8_000_000.0)
        assert refusal_reason(lambda: rising.check(10, 0.0)) == "fell"
        assert refusal_reason(lambda: rising.check(20, 3.0)) == "fell"
        assert refusal_reason(lambda: rising.check(30, 3.5)) == "fell"
        assert not rising.check(40, 4.0), "it continues nothing"
        assert rising.check(50, 5.0)
        assert rising.restarts == 1

    def test_a_0_never_begins_a_new_count(self) -> None:
        rising = self.rising()
        rising.check(0, 500.0)
        assert {refusal_reason(lambda tick=tick: rising.check(tick, 0.0)) for tick in range(10, 400, 10)} == {"fell"}  # type: ignore[misc]
        assert rising.check(400, 501.0)
        assert rising.restarts == 0

    def test_a_net_count_falls_and_rises_within_the_largest_power(self) -> None:
        net = self.rising(net=True)
        assert not net.check(0, -40.0)
        assert net.check(3600, -9_000.0)
        assert net.check(7200, 500.0)
        assert refusal_reason(lambda: net.check(7300, -90_000.0)) == "fell"
        assert net.check(7400, 0.0)

    def test_a_count_rises_no_faster_than_the_largest_power(self) -> None:
        rising = self.rising()
        rising.check(0, 500.0)
        an_hour_and_a_minute = 10_000.0 * 61 / 60
        assert refusal_reason(lambda: rising.check(3600, 500.1 + an_hour_and_a_minute)) == "jumped"
        assert rising.check(3600, 500.0 + an_hour_and_a_minute)

    def test_a_coarse_counter_may_rise_by_one_step_at_once(self) -> None:
        rising = self.rising(resolution=1000.0)
        rising.check(0, 5000.0)
        assert rising.check(1, 6000.0)
        assert refusal_reason(lambda: rising.check(2, 8000.0)) == "jumped"

    def test_three_consistent_readings_begin_a_new_count(self) -> None:
        rising = self.rising()
        rising.check(0, 1.0)
        assert refusal_reason(lambda: rising.check(10, 9e6)) == "jumped"
        assert refusal_reason(lambda: rising.check(20, 9e6 + 1)) == "jumped"
        assert not rising.check(30, 9e6 + 2), "it continues nothing"
        assert rising.check(40, 9e6 + 3)

    def test_inconsistent_jumps_never_begin_a_new_count(self) -> None:
        rising = self.rising()
        rising.check(0, 1.0)
        for tick in range(10, 400, 10):
            assert refusal_reason(lambda tick=tick: rising.check(tick, 9e6 * tick)) == "jumped"  # type: ignore[misc]

    def test_a_valid_reading_in_between_ends_a_series_of_jumps(self) -> None:
        rising = self.rising()
        rising.check(0, 1.0)
        for tick in (10, 40, 70):
            for later in (0, 10):
                assert refusal_reason(lambda: rising.check(tick + later, 9e6)) == "jumped"  # noqa: B023
            assert rising.check(tick + 20, 1.0)

    def test_a_negative_count_is_refused(self) -> None:
        assert refusal_reason(lambda: self.rising().check(0, -1.0)) == "range"


class TestFreshnessGuard:
    def test_a_retained_message_without_a_time_may_have_any_age(self) -> None:
        fresh = FreshnessGuard(600.0, replay=False)
        assert refusal_reason(lambda: fresh.check(True, None, NOW)) == "retained"
        fresh.check(False, None, NOW)

    def test_a_recent_retained_message_counts(self) -> None:
        fresh = FreshnessGuard(600.0, replay=False)
        fresh.check(True, NOW - 600.0, NOW)
        assert refusal_reason(lambda: fresh.check(True, NOW - 601.0, NOW)) == "retained"

    def test_a_meter_with_a_wrong_clock_is_refused(self) -> None:
        fresh = FreshnessGuard(600.0, replay=False)
        assert refusal_reason(lambda: fresh.check(False, NOW - 1000.0, NOW)) == "stale"
        assert refusal_reason(lambda: fresh.check(False, NOW + 301.0, NOW)) == "ahead"
        fresh.check(False, NOW - 800.0, NOW)
        fresh.check(False, NOW + 299.0, NOW)

    def test_a_replay_accepts_the_past_but_not_the_future(self) -> None:
        fresh = FreshnessGuard(600.0, replay=True)
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
