"""Hours of energy from Home Assistant: its SQLite file, and the CSV files that its owner can download."""

import math
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from sottovoce.errors import DataError

from sottovoce_home.history import History, Interval
from sottovoce_home.supplier_files import CsvForm, parse_time, parse_value, place_times, read_rows

_HOUR = 3600
_WH = {"Wh": 1.0, "kWh": 1000.0, "MWh": 1e6}
_MEAN_WATTS = {"W": 1.0, "kW": 1000.0}
_LONGEST_GAP = 900
_NUMBER = re.compile(r"\d{1,12}(\.\d{0,20})?")
_GRID = "grid_consumption"


def read_statistics(path: Path, statistic: str | None) -> History:
    """Return the hours of a statistic in Home Assistant's SQLite file, which is opened read-only.

    The energy of an hour is the difference of `sum` from the hour before. An hour after a gap, and one in which the sum
    fell, is missing.

    Args:
        path: path of the file.
        statistic: identifier of the statistic, such as sensor.energy; by default the only one that counts energy.

    Raises:
        DataError: if the file is not Home Assistant's, or the statistic is not certain.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
            found = connection.execute(
                "SELECT id, statistic_id, unit_of_measurement FROM statistics_meta WHERE has_sum "
                "AND unit_of_measurement IN ('Wh', 'kWh', 'MWh') ORDER BY statistic_id"
            ).fetchall()
            chosen = [one for one in found if statistic in (None, one[1])]
            if len(chosen) != 1:
                names = ", ".join(str(name) for _, name, _ in found) or "none"
                raise DataError(f"{path}: set --energy-column to one of the statistics of energy: {names}")
            number, _, unit = chosen[0]
            rows = connection.execute(
                "SELECT start_ts, sum FROM statistics WHERE metadata_id = ? AND start_ts IS NOT NULL "
                "AND sum IS NOT NULL ORDER BY start_ts",
                (number,),
            ).fetchall()
        times = [(int(start), float(total)) for start, total in rows]
    except (sqlite3.DatabaseError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{path}: cannot be read as Home Assistant's statistics ({error}); copy home-assistant_v2.db again while "
            "Home Assistant is stopped"
        ) from error
    intervals = [
        Interval(row, start, (total - before) * _WH[unit])
        for row, ((previous, before), (start, total)) in enumerate(pairwise(times), start=2)
        if start - previous == _HOUR and start % _HOUR == 0 and total >= before and math.isfinite(total)
    ]
    if not intervals:
        raise DataError(f"{path}: the statistic has no two consecutive hours; choose another --energy-column")
    return History(_HOUR, tuple(intervals))


def read_dashboard(path: Path, form: CsvForm) -> History:
    """Return the hours in a file of the energy dashboard: a line for each sensor, and a column for each hour.

    The lines of energy from the grid (of both tariffs, if there are two) are added up.

    Raises:
        DataError: if the file has no such line, or its columns are not hours.
    """
    header, rows = read_rows(path, 2)
    chosen = [
        row for _, row in rows if row[0] == form.energy_column or (form.energy_column is None and row[1] == _GRID)
    ]
    units = {row[2] for row in chosen}
    if not chosen or len(units) != 1 or not units <= set(_WH):
        names = ", ".join(row[0] for _, row in rows if row[2] in _WH and row[0]) or "none"
        raise DataError(f"{path}: set --energy-column to one of the sensors of energy: {names}")
    times = list(place_times(path, [(1, parse_time(path, 1, text, form)) for text in header[3:]], form))
    if any(after - before < _HOUR for before, after in pairwise(times)) or any(at % _HOUR for at in times):
        raise DataError(f"{path}: the columns are not hours; download the view of one day")
    if len(times) > 1 and min(after - before for before, after in pairwise(times)) > _HOUR:
        raise DataError(f"{path}: the columns are days or months; download the view of one day, which has hours")
    factor = _WH[units.pop()]
    intervals = []
    for place, at in enumerate(times, start=3):
        texts = [row[place].strip() for row in chosen]
        if all(_NUMBER.fullmatch(text) for text in texts):
            intervals.append(Interval(1, at, math.fsum(float(text) for text in texts) * factor))
    return _history(path, intervals)


def read_statistics_csv(path: Path, form: CsvForm) -> History:
    """Return the hours in an export of statistics, with the columns statistic_id, unit, start and sum.

    Raises:
        DataError: if the statistic, its unit or its times are not certain.
    """
    header, rows = read_rows(path)
    if missing := {"unit", "start", "sum"} - set(header):
        raise DataError(f"{path}: has no column {', '.join(sorted(missing))}; export the statistic of a counter")
    unit, start, total = (header.index(name) for name in ("unit", "start", "sum"))
    chosen = _of_one_sensor(path, rows, form)
    units = {row[unit].strip() for _, row in chosen}
    if len(units) != 1 or not units <= set(_WH):
        raise DataError(
            f"{path}: the unit {', '.join(sorted(units))} is not Wh, kWh or MWh; export a counter of energy"
        )
    stamps = [(line, parse_time(path, line, row[start].strip(), form)) for line, row in chosen]
    is_comma = any("," in row[total] for _, row in chosen)
    sums = [
        (line, at, parse_value(path, line, row[total].strip(), is_comma))
        for (line, row), at in zip(chosen, place_times(path, stamps, form), strict=True)
        if row[total].strip()
    ]
    factor = _WH[units.pop()]
    return _history(
        path,
        [
            Interval(line, at, (value - before) * factor)
            for (_, previous, before), (line, at, value) in pairwise(sums)
            if at - previous == _HOUR and at % _HOUR == 0 and value >= before
        ],
    )


def read_states(path: Path, form: CsvForm) -> History:
    """Return the hours in a download of the history: entity_id, state and last_changed.

    Its first lines are hours of long-term statistics: each has the time at which its hour begins, and the counter (or
    the mean power) at its end. Later lines are changes of the state at their own times. The hour between both is
    missing, and so is one that begins or ends more than 15 minutes from the next change, or in which the counter fell.

    Raises:
        DataError: if the sensor or its unit is not certain.
    """
    if form.unit is None:
        raise DataError(f"{path}: Home Assistant's history does not contain the unit; set --unit to Wh, kWh, W or kW")
    _, rows = read_rows(path)
    lines: list[tuple[int, datetime, float | None]] = []
    for line, row in _of_one_sensor(path, rows, form):
        value = float(row[1]) if _NUMBER.fullmatch(row[1].strip()) else None  # such as "unavailable"
        time = parse_time(path, line, row[2].strip(), form)
        if time.tzinfo is None:
            raise DataError(f"{path}, line {line}: the time has no offset from UTC; download the history again")
        lines.append((line, time, value))
    lines.sort(key=lambda one: one[1])
    hours = next((n for n, (_, time, _) in enumerate(lines) if time.timestamp() % _HOUR), len(lines))
    statistics = [(line, int(time.timestamp()), value) for line, time, value in lines[:hours]]
    if hours < len(lines):
        del statistics[-1:]  # this line may be the first of the changes, with the time at which the download begins
    if form.unit in _MEAN_WATTS:
        factor = _MEAN_WATTS[form.unit]
        return _history(
            path, [Interval(line, at, value * factor) for line, at, value in statistics if value is not None]
        )
    factor = _WH[form.unit]
    counts = [(line, at + _HOUR, value) for line, at, value in statistics]
    changes = [(line, time.timestamp(), value) for line, time, value in lines[hours:]]
    return _history(path, [*_differences(counts, factor), *_differences(list(_at_hours(changes)), factor)])


def _at_hours(changes: list[tuple[int, float, float | None]]) -> list[tuple[int, int, float | None]]:
    """Return the counter at each full hour, interpolated between changes; None if it fell since the hour before."""
    found: list[tuple[int, int, float | None]] = []
    is_whole = True
    for (_, before, low), (line, after, high) in pairwise(changes):
        is_whole = is_whole and low is not None and high is not None and high >= low
        first = int(before // _HOUR + 1) * _HOUR
        if first > after:
            continue
        if low is not None and high is not None and high >= low and after - before <= _LONGEST_GAP:
            if not is_whole:
                found.append((line, first, None))
            found.append((line, first, low + (high - low) * (first - before) / (after - before)))
        is_whole = True
    return found


def _differences(counts: list[tuple[int, int, float | None]], factor: float) -> list[Interval]:
    return [
        Interval(line, before, (high - low) * factor)
        for (_, before, low), (line, after, high) in pairwise(counts)
        if low is not None and high is not None and after - before == _HOUR and high >= low
    ]


def _of_one_sensor(path: Path, rows: list[tuple[int, list[str]]], form: CsvForm) -> list[tuple[int, list[str]]]:
    """Return the lines of the chosen sensor, or of the only one."""
    names = dict.fromkeys(row[0] for _, row in rows)
    chosen = [name for name in names if form.energy_column in (None, name)]
    if len(chosen) != 1:
        raise DataError(f"{path}: set --energy-column to one of the sensors: {', '.join(names)}")
    return [(line, row) for line, row in rows if row[0] == chosen[0]]


def _history(path: Path, intervals: list[Interval]) -> History:
    if not intervals:
        raise DataError(f"{path}: there are no two consecutive hours; choose another --energy-column")
    return History(_HOUR, tuple(intervals))


CSV_READERS: dict[tuple[bytes, ...], Callable[[Path, CsvForm], History]] = {
    (b"entity_id", b"state", b"last_changed"): read_states,
    (b"entity_id", b"type", b"unit"): read_dashboard,
    (b"statistic_id",): read_statistics_csv,
}
"""Readers of Home Assistant's CSV files, by the first columns."""
