"""Conversion of readings to windows: unknown values are missing."""

from collections.abc import Iterable
from typing import Any

import pytest
from sottovoce_home.meters.judge import Count, Step
from sottovoce_home.meters.reduction import CounterWindows, PowerWindows

FIRST = 1_000_000
BEGIN = FIRST * 1800.0


def steps(readings: Iterable[tuple[float, float]]) -> list[Step]:
    """Return the steps between (seconds since BEGIN, Wh) pairs; equal values are one count."""
    counts: list[Count] = []
    for seconds, wh in readings:
        time = BEGIN + seconds
        if counts and counts[-1].total == wh:
            counts[-1] = counts[-1].repeated(time, float("inf"))
        else:
            counts.append(Count(time, time, (wh,), 1, time))
    return [Step(before, after) for before, after in zip([None, *counts], counts, strict=False)]


def reduce_counts(*readings: tuple[float, float], gap: float = 600.0, **keys: Any) -> list[tuple[int, int]]:
    """Return windows, from FIRST, for (seconds since its beginning, Wh) pairs."""
    windows = CounterWindows(1800, gap, **keys)
    results = [window for step in steps(readings) for window in windows.add(step)]
    return [(number - FIRST, wh) for number, wh in results]


def reduce_power(*readings: tuple[float, float], gap: float = 600.0) -> list[tuple[int, int]]:
    windows = PowerWindows(1800, gap)
    results = [window for seconds, watts in readings for window in windows.add(BEGIN + seconds, (watts,))]
    return [(number - FIRST, wh) for number, wh in results]


class TestCounter:
    def test_edges_are_interpolated_between_readings(self) -> None:
        assert reduce_counts((-5, 995.0), (5, 1005.0), (1795, 1495.0), (1805, 1505.0)) == [(0, 500)]

    def test_a_window_joined_midway_is_missing(self) -> None:
        assert reduce_counts((900, 1000.0), (1500, 1100.0), (2000, 1200.0), (3500, 1500.0), (3700, 1510.0)) == [
            (1, 345)
        ]

    def test_readings_may_be_missing_inside_a_window(self) -> None:
        assert reduce_counts((0, 1000.0), (1700, 1900.0), (1800, 2000.0)) == [(0, 1000)]

    def test_a_gap_over_an_edge_makes_both_windows_missing(self) -> None:
        readings = [(0, 1000.0), (1300, 1500.0), (2300, 1800.0), (3500, 2000.0), (3600, 2100.0), (5400, 3000.0)]
        assert reduce_counts(*readings) == [(2, 900)]

    def test_half_hourly_readings_on_the_edges_suffice(self) -> None:
        assert reduce_counts((0, 1000.0), (1800, 1500.0), (3600, 1505.0), (7200, 1900.0), (9000, 2000.0)) == [
            (0, 500),
            (1, 5),
            (4, 100),
        ]

    def test_rounding_loses_no_energy(self) -> None:
        readings = [(60.0 * minute, 0.1 + 0.01 * minute) for minute in range(30 * 200 + 1)]
        assert sum(wh for _, wh in reduce_counts(*readings)) == round(0.1 + 0.01 * 30 * 200) - 0

    def test_a_new_count_is_not_compared_with_the_last_one(self) -> None:
        windows = CounterWindows(1800, 600.0)
        counts = [
            Count(BEGIN + at, BEGIN + at, (wh,), 1, BEGIN + at) for at, wh in ((0, 1e3), (1750, 10.0), (1800, 20.0))
        ]
        assert not windows.add(Step(None, counts[0]))
        assert not windows.add(Step(None, counts[1]))
        assert not windows.add(Step(counts[1], counts[2]))
        last = Count(BEGIN + 3600, BEGIN + 3600, (30.0,), 1, BEGIN + 3600)
        assert windows.add(Step(counts[2], last)) == [(FIRST + 1, 10)]

    def test_readings_that_are_regularly_a_quarter_of_an_hour_apart_leave_no_gap(self) -> None:
        readings = [(900.0 * n + 100, 1000.0 + 50 * n + n * n) for n in range(9)]
        assert [number for number, _ in reduce_counts(*readings, gap_is_set=False)] == [1, 2, 3]
        assert reduce_counts(*readings, gap_is_set=True) == []

    @pytest.mark.parametrize("cadence", [300, 600])
    def test_a_kettle_at_an_edge_makes_its_windows_unknown_if_messages_are_rare(self, cadence: int) -> None:
        """2 kW for two minutes before the edge: with a message every five minutes, it may have been after the edge."""

        def wh(at: float) -> float:
            return 1000.0 + at / 36 + max(0.0, min(at, 3600.0) - 3480) / 3600 * 2000  # 100 W

        readings = [(at + 130.0, wh(at + 130.0)) for at in range(0, 9000, cadence)]
        windows = dict(reduce_counts(*readings, gap_is_set=False))
        assert set(range(1, 4)) - set(windows) == {1, 2}
        true = {n: wh(1800 * n + 1800) - wh(1800 * n) for n in windows}
        assert all(abs(windows[n] - true[n]) <= 0.05 * true[n] for n in windows)

    def test_one_long_silence_between_regular_readings_is_a_gap(self) -> None:
        readings = [(10.0 * n, 1000.0 + 3 * n + n % 2) for n in range(720) if not 170 <= n < 290]
        assert [number for number, _ in reduce_counts(*readings, gap_is_set=False)] == [2]

    @pytest.mark.parametrize("repeats", [True, False], ids=["all the time", "on change only"])
    def test_between_two_steps_the_count_is_interpolated(self, repeats: bool) -> None:
        """A counter of whole kWh says nothing for hours, and 0 Wh or 1000 Wh in half an hour are both wrong."""
        changes = [(0.0, 0.0), (5000.0, 1000.0), (15_000.0, 2000.0), (33_000.0, 3000.0), (44_600.0, 4000.0)]
        readings = changes
        if repeats:
            times = sorted({float(at) for at in range(0, 44_700, 100)} | {at for at, _ in changes})
            readings = [(at, max(wh for moment, wh in changes if moment <= at)) for at in times]
        windows = dict(reduce_counts(*readings))
        assert windows[20] == pytest.approx(1000 * 1800 / 11_600, abs=1)
        assert max(windows.values()) < 300

    def test_a_silence_in_which_the_counter_rose_by_several_steps_is_a_gap(self) -> None:
        readings = [(100.0 * n, n // 20 * 100.0) for n in range(400) if not 100 <= n < 170]
        assert {number for number, _ in reduce_counts(*readings)}.isdisjoint(range(5, 9))

    def test_a_counter_that_is_flat_for_more_than_a_day_may_be_stuck(self) -> None:
        flat = [(600.0 * n, 1000.0) for n in range(6 * 25)]
        rising = [(600.0 * (6 * 25 + n), 1005.0 + 100 * n) for n in range(12)]
        assert reduce_counts(*flat, *rising)[0][0] == 50
        assert reduce_counts(*flat[: 6 * 20], *((at - 18_000, wh) for at, wh in rising))[0] == (0, 0)

    def test_a_window_with_more_energy_than_the_largest_power_is_missing(self) -> None:
        readings = [(600.0 * n, 1000.0 * n) for n in range(7)]
        assert reduce_counts(*readings, max_watts=6000.0) == [(0, 3000), (1, 3000)]
        assert reduce_counts(*readings, max_watts=5000.0) == []


class TestPower:
    def test_power_changes_evenly_between_readings(self) -> None:
        readings = [(60.0 * minute, 20.0 * minute) for minute in range(31)]
        assert reduce_power(*readings) == [(0, 150)]

    def test_a_gap_inside_a_power_window_makes_it_missing(self) -> None:
        readings = [(60.0 * minute, 600.0) for minute in range(91) if not 10 < minute < 25]
        assert reduce_power(*readings) == [(1, 300), (2, 300)]
