"""Next-half-hour forecasting: conversion of half-hour energies to the records of a regression.

A record describes how the load continues from its last half hour. Its features are that half hour, the three before it
and the time of day; its last column is the target. Loads are on a logarithmic scale, u = ln(1 + Wh/50), on which a
household's errors have the same size at all loads, and the target is the change of u since the previous half hour.
The initial, all-zero model therefore predicts persistence ("as in the last half hour").

**A record is computed from a single day's readings**, midnight to midnight, UTC. A day's first half hours have no
record, because such a record would reach across midnight. Apart from readings, only constants are used. Therefore, a
day's readings determine that day's records and no others: if windows are numbered by day, a bound on a window bounds
the entire influence of a day's readings (docs/decisions/0023-forecast-windows.md).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.dataset import Arrays, Table, Target
from sottovoce.errors import DataError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = tuple[Integers, Integers, Integers]
"""Indices of meters, days and half hours."""

HALF_HOURS = 48
"""Number of half hours in a day."""
LAGS = 4
"""Number of preceding half hours that a prediction uses."""
LIMIT_WH = 12_000
"""Limit to which half-hour energies are clamped: the energy that 100 A at 240 V deliver in half an hour."""
SCALE_WH = 50.0
"""Scale of loads: u = ln(1 + Wh/SCALE_WH)."""
HELD_OUT = 0.25
"""Fraction of days, at the end, that is held out for testing."""

_SECONDS = 1800
_MISSING = -1
_CHUNK = 2**16
_TYPICAL_WH = 150.0
_LOADS = np.log1p(np.arange(LIMIT_WH + 1) / SCALE_WH)  # a table, so rounding never depends on other readings
_TYPICAL = float(np.log1p(_TYPICAL_WH / SCALE_WH))
# With these constants, all columns have about the same spread for typical households, and records have a norm of about
# 0.5, which suits the learners' clip norm and step size. The constants are public, and privacy does not depend on them.
_CHANGE, _LEVEL, _WAVE, _BIAS = 0.32, 0.22, 0.22, 0.16
_ANGLES = 2 * np.pi * np.arange(HALF_HOURS)[:, np.newaxis] * np.array([1, 2]) / HALF_HOURS
_WAVES = _WAVE * np.hstack([np.sin(_ANGLES), np.cos(_ANGLES)])
_LEVEL_COLUMN = LAGS - 1
FEATURES = LAGS + _WAVES.shape[1] + 2
"""Number of columns of a record: changes, level, time of day, a constant, and the target."""


def forecast_table(
    wh: NDArray[np.integer],
    first: int,
    seconds: int,
    *,
    name: str,
    origin: str,
    share: float = HELD_OUT,
) -> Table:
    """Return records for next-half-hour forecasting, each from a single day and without missing readings.

    Records are grouped by meter. Their windows are days, numbered from 1970-01-01 if `first` is counted from there. The
    last days are held out: no training record uses them, and the test split contains their records. A test record also
    requires a reading for the same half hour of the previous day, because the baselines are `persistence` and
    `same_time_yesterday`.

    Args:
        wh: integer[meters, windows], energy of each window in Wh, -1 where it is missing.
        first: window number of the first column; window w begins w · seconds after a midnight.
        seconds: length of a window, in seconds: 1800 or a divisor of it.
        name: name of the data set, for reports.
        origin: file or source, for error messages.
        share: fraction of days to hold out, from 0 up to but not including 1.

    Raises:
        DataError: if such windows cannot be combined into half hours, or the fraction is out of range.
    """
    if not 0 <= share < 1:
        raise DataError(f"{origin}: test={share:g}: the fraction of days held out must be at least 0 and below 1")
    days, first_day = daily_energy(wh, first, seconds, origin)
    count = days.shape[1]
    targets, training_days = _target_mask(days), count - round(count * share)
    meters, day, half_hour = np.nonzero(targets[:, :training_days])
    targets[:, : max(1, training_days)] = False  # there are no readings before the first day
    targets[:, 1:] &= days[:, :-1] >= 0
    test_indices: Indices = np.nonzero(targets)  # type: ignore[assignment]  # the mask has three dimensions
    baselines = {
        "persistence": _kwh(days, (test_indices[0], test_indices[1], test_indices[2] - 1)),
        "same_time_yesterday": _kwh(days, (test_indices[0], test_indices[1] - 1, test_indices[2])),
    }
    return Table(
        name=name,
        rows=_with_zero_labels(_rows(days, (meters, day, half_hour))),
        test=_with_zero_labels(_rows(days, test_indices)) if len(test_indices[0]) else None,
        classes=1,
        windows=first_day + day,
        groups=meters,
        target=Target("kWh", energy_kwh, baselines, overlap=LAGS + 1),
        origin=origin,
    )


def daily_energy(wh: NDArray[np.integer], first: int, seconds: int, origin: str) -> tuple[Integers, int]:
    """Return half-hour energies by day, int64[meters, days, HALF_HOURS], -1 if missing, and the first day's number.

    Args:
        wh: see forecast_table.
        first: see forecast_table.
        seconds: length of a window, in seconds.
        origin: file or source, for error messages.

    Raises:
        DataError: if such windows cannot be combined into half hours.
    """
    energies, start = _half_hours(wh, first, seconds, origin)
    days = _pad_to_multiple(energies, start, HALF_HOURS)
    return days.reshape(len(days), days.shape[1] // HALF_HOURS, HALF_HOURS), start // HALF_HOURS


def held_out_share(options: Mapping[str, str], origin: str) -> float:
    """Return the option `test` of a data SPEC, which is the fraction of days to hold out.

    Raises:
        DataError: if the option is not a number.
    """
    try:
        return float(options.get("test", HELD_OUT))
    except ValueError:
        raise DataError(
            f"{origin}: test={options['test']}: must be a fraction of the days, such as test=0.25"
        ) from None


def lag_features(wh: Integers, half_hour: Integers) -> Floats:
    """Return the inputs for predictions, which are records without their targets.

    Args:
        wh: int64[n, LAGS], energies of the preceding half hours in Wh, non-negative, latest last.
        half_hour: int64[n], half hour to predict, 0 … 47, UTC.

    Returns:
        float64[n, FEATURES - 1]; each row depends, to the last bit, only on its own readings.
    """
    loads = _LOADS[np.minimum(wh, LIMIT_WH)]
    rows = np.empty((len(wh), FEATURES - 1))
    rows[:, :_LEVEL_COLUMN] = _CHANGE * (loads[:, 1:] - loads[:, :-1])
    rows[:, _LEVEL_COLUMN] = _LEVEL * (loads[:, -1] - _TYPICAL)
    rows[:, LAGS:-1] = _WAVES[half_hour]
    rows[:, -1] = _BIAS
    return rows


@np.errstate(over="ignore")  # a model that has diverged predicts the limit
def energy_kwh(records: Floats, targets: Floats) -> Floats:
    """Convert targets float64[N, m], predicted or true, of records float64[m, at least LAGS] to kWh per half hour."""
    last_loads = records[:, _LEVEL_COLUMN] / _LEVEL + _TYPICAL
    energies: Floats = np.clip(SCALE_WH * np.expm1(last_loads + targets), 0.0, LIMIT_WH) / 1000
    return energies


def _half_hours(wh: NDArray[np.integer], first: int, seconds: int, origin: str) -> tuple[Integers, int]:
    """Return half-hour energies, int64[meters, n], -1 if incomplete, and the number of the first half hour."""
    if seconds < 1 or _SECONDS % seconds:
        raise DataError(f"{origin}: windows of {seconds} s cannot be combined into half hours; use a divisor of 1800 s")
    parts = _SECONDS // seconds
    padded = _pad_to_multiple(wh, first, parts)
    # The shape is explicit because a new feed has no meters yet.
    windows = padded.reshape(len(wh), padded.shape[1] // parts, parts)
    energies = np.add.reduce(windows, axis=2)
    return np.where((windows >= 0).all(axis=2), energies, _MISSING), first // parts


def _pad_to_multiple(wh: NDArray[np.integer], first: int, size: int) -> Integers:
    """Return the windows padded with missing values so that they begin and end at multiples of `size`."""
    padding_before = first % size
    padding_after = -(padding_before + wh.shape[1]) % size
    return np.pad(wh.astype(np.int64), ((0, 0), (padding_before, padding_after)), constant_values=_MISSING)


def _target_mask(days: Integers) -> NDArray[np.bool_]:
    """Return a mask of the half hours in int64[meters, days, 48] that, like the LAGS before them, have a reading."""
    has_reading = days >= 0
    mask = has_reading.copy()
    mask[:, :, :LAGS] = False
    for lag in range(1, LAGS + 1):
        mask[:, :, LAGS:] &= has_reading[:, :, LAGS - lag : HALF_HOURS - lag]
    return mask


def _rows(days: Integers, indices: Indices) -> Floats:
    """Return the half hours' records, float64[n, FEATURES], computed in chunks to save memory."""
    rows = np.empty((len(indices[0]), FEATURES))
    for start in range(0, len(rows), _CHUNK):
        meters, day, half_hours = (index[start : start + _CHUNK, np.newaxis] for index in indices)
        wh = np.minimum(days[meters, day, half_hours + np.arange(-LAGS, 1)], LIMIT_WH)
        part = rows[start : start + _CHUNK]
        part[:, :-1] = lag_features(wh[:, :-1], half_hours[:, 0])
        part[:, -1] = _LOADS[wh[:, -1]] - _LOADS[wh[:, -2]]
    return rows


def _kwh(days: Integers, indices: Indices) -> Floats:
    return np.minimum(days[indices], LIMIT_WH) / 1000


def _with_zero_labels(rows: Floats) -> Arrays:
    return rows, np.zeros(len(rows), dtype=np.int64)
