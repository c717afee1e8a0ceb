"""Conversion of readings to windows: unknown values are missing."""

from sottovoce_home.meters.reduction import CounterWindows, PowerWindows

FIRST = 1_000_000
BEGIN = FIRST * 1800.0


def reduce_counts(*readings: tuple[float, float], gap: float = 600.0) -> list[tuple[int, int]]:
    """Return windows, from FIRST, for (seconds since its beginning, Wh) pairs."""
    windows = CounterWindows(1800, gap)
    results = [window for seconds, wh in readings for window in windows.add(BEGIN + seconds, wh)]
    return [(number - FIRST, wh) for number, wh in results]


def reduce_power(*readings: tuple[float, float], gap: float = 600.0) -> list[tuple[int, int]]:
    windows = PowerWindows(1800, gap)
    results = [window for seconds, watts in readings for window in windows.add(BEGIN + seconds, watts)]
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
        assert reduce_counts((0, 1000.0), (1800, 1500.0), (3600, 1500.0), (7200, 1900.0), (9000, 2000.0)) == [
            (0, 500),
            (1, 0),
            (4, 100),
        ]

    def test_rounding_loses_no_energy(self) -> None:
        readings = [(60.0 * minute, 0.1 + 0.01 * minute) for minute in range(30 * 200 + 1)]
        assert sum(wh for _, wh in reduce_counts(*readings)) == round(0.1 + 0.01 * 30 * 200) - 0

    def test_readings_that_are_not_later_or_not_higher_are_skipped(self) -> None:
        assert reduce_counts((0, 1000.0), (0, 1100.0), (-50, 1200.0), (50, 900.0), (1750, 1500.0), (1800, 1500.0)) == [
            (0, 500)
        ]

    def test_after_a_reset_readings_are_not_compared(self) -> None:
        windows = CounterWindows(1800, 600.0)
        windows.add(BEGIN, 1000.0)
        windows.forget()
        assert not windows.add(BEGIN + 1750, 10.0)
        assert not windows.add(BEGIN + 1800, 20.0)
        assert windows.add(BEGIN + 3600, 30.0) == [(FIRST + 1, 10)]


class TestPower:
    def test_power_changes_evenly_between_readings(self) -> None:
        readings = [(60.0 * minute, 20.0 * minute) for minute in range(31)]
        assert reduce_power(*readings) == [(0, 150)]

    def test_a_gap_inside_a_power_window_makes_it_missing(self) -> None:
        readings = [(60.0 * minute, 600.0) for minute in range(91) if not 10 < minute < 25]
        assert reduce_power(*readings) == [(1, 300), (2, 300)]
