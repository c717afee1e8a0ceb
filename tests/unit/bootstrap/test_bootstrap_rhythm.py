"""A device's period: message loss shortens it, health keeps it, and chance does not change it."""

import pytest
from sottovoce_bootstrap.rhythm import CYCLES, LONGEST, SHORTEST, Rhythm

PERIOD = 10.0


def _live(rhythm: Rhythm, rate: float, cycles: int, now: float = 0.0) -> float:
    """Let cycles pass with `rate` exchanges per fleet period."""
    owed = 0.0
    for _ in range(cycles):
        now += rhythm.period
        owed += rate * rhythm.period / PERIOD
        while owed >= 1:
            rhythm.receive()
            owed -= 1
        rhythm.begin(now)
    return now


@pytest.mark.parametrize("rate", [0.6, 1.0, 1.9])
def test_a_healthy_device_keeps_the_fleet_s_period(rate: float) -> None:
    rhythm = Rhythm(PERIOD, 0.0)
    _live(rhythm, rate, 10 * CYCLES)
    assert rhythm.period == PERIOD


def test_a_rarely_contacted_device_speeds_up_to_a_quarter_of_the_period() -> None:
    rhythm = Rhythm(PERIOD, 0.0)
    now = _live(rhythm, 0.2, CYCLES - 1)
    assert rhythm.period == PERIOD
    now = _live(rhythm, 0.2, 1, now)
    assert rhythm.period == PERIOD / 2
    now = _live(rhythm, 0.2, 10 * CYCLES, now)
    assert rhythm.period == PERIOD * SHORTEST
    _live(rhythm, 1.5, 5 * CYCLES, now)
    assert rhythm.period == PERIOD, "it recovers when others reach it again"


def test_a_faster_period_does_not_itself_look_like_neglect() -> None:
    """Arrivals are compared with the fleet's rate, not with the device's own rate, which it has just doubled."""
    rhythm = Rhythm(PERIOD, 0.0)
    now = _live(rhythm, 0.4, CYCLES)
    assert rhythm.period == PERIOD / 2
    _live(rhythm, 0.7, 20 * CYCLES, now)
    assert rhythm.period == PERIOD / 2


def test_a_frequently_contacted_device_slows_down() -> None:
    rhythm = Rhythm(PERIOD, 0.0)
    now = _live(rhythm, 5.0, 5 * CYCLES)
    assert rhythm.period == PERIOD * LONGEST
    _live(rhythm, 0.9, CYCLES, now)
    assert rhythm.period == PERIOD


def test_a_clock_that_stood_still_decides_nothing() -> None:
    rhythm = Rhythm(PERIOD, 5.0)
    for _ in range(3 * CYCLES):
        rhythm.begin(5.0)
    assert rhythm.period == PERIOD
