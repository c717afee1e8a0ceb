"""A device's period: message loss shortens it, health keeps it, and chance does not change it."""

import pytest
from sottovoce_bootstrap.adaptive_period import CYCLES, LONGEST, SHORTEST, AdaptivePeriod

PERIOD = 10.0


def _live(adaptive: AdaptivePeriod, rate: float, cycles: int, now: float = 0.0) -> float:
    """Let cycles pass with `rate` exchanges per fleet period."""
    owed = 0.0
    for _ in range(cycles):
        now += adaptive.period
        owed += rate * adaptive.period / PERIOD
        while owed >= 1:
            adaptive.count_received()
            owed -= 1
        adaptive.count_started(now)
    return now


@pytest.mark.parametrize("rate", [0.6, 1.0, 1.9])
def test_a_healthy_device_keeps_the_fleet_s_period(rate: float) -> None:
    adaptive = AdaptivePeriod(PERIOD, 0.0)
    _live(adaptive, rate, 10 * CYCLES)
    assert adaptive.period == PERIOD


def test_a_rarely_contacted_device_speeds_up_to_a_quarter_of_the_period() -> None:
    adaptive = AdaptivePeriod(PERIOD, 0.0)
    now = _live(adaptive, 0.2, CYCLES - 1)
    assert adaptive.period == PERIOD
    now = _live(adaptive, 0.2, 1, now)
    assert adaptive.period == PERIOD / 2
    now = _live(adaptive, 0.2, 10 * CYCLES, now)
    assert adaptive.period == PERIOD * SHORTEST
    _live(adaptive, 1.5, 5 * CYCLES, now)
    assert adaptive.period == PERIOD, "it recovers when others reach it again"


def test_a_faster_period_does_not_itself_look_like_neglect() -> None:
    """Arrivals are compared with the fleet's rate, not with the device's own rate, which it has just doubled."""
    adaptive = AdaptivePeriod(PERIOD, 0.0)
    now = _live(adaptive, 0.4, CYCLES)
    assert adaptive.period == PERIOD / 2
    _live(adaptive, 0.7, 20 * CYCLES, now)
    assert adaptive.period == PERIOD / 2


def test_a_frequently_contacted_device_slows_down() -> None:
    adaptive = AdaptivePeriod(PERIOD, 0.0)
    now = _live(adaptive, 5.0, 5 * CYCLES)
    assert adaptive.period == PERIOD * LONGEST
    _live(adaptive, 0.9, CYCLES, now)
    assert adaptive.period == PERIOD


def test_a_clock_that_stood_still_decides_nothing() -> None:
    adaptive = AdaptivePeriod(PERIOD, 5.0)
    for _ in range(3 * CYCLES):
        adaptive.count_started(5.0)
    assert adaptive.period == PERIOD
