"""Next-half-hour forecasting: from the energies of half hours to records of a regression.

A record says how the load goes on from its last half hour: its features are of that half hour, of the three before it
and of the time of day, its last column is what is to be predicted. Loads are seen on a logarithmic scale, u = ln(1 +
Wh/50), on which a household's errors are of one size at all loads, and the target is u - u of the half hour before. So
the model of zeros is persistence, "as in the last half hour", and a model that learns begins there.

**A record is made of readings of one day alone**, midnight to midnight, UTC: the first half hours of a day have no
record, because theirs would reach over midnight. Nothing else goes in but constants. So whatever is read on a day
decides about the records of that day, and about no other: with the day as its number of a window, what bounds a window
bounds all that a day's readings do (docs/decisions/0023-forecast-windows.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.dataset import DataSet, assembled
from sottovoce.data.target import Target
from sottovoce.errors import DataError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

HALF_HOURS = 48
"""In a day."""
LAGS = 4
"""Half hours that a prediction looks at."""
LIMIT_WH = 12_000
"""Energy of a half hour beyond which a reading is clamped: what a connection of 100 A at 240 V carries."""
HELD_OUT = 0.25
"""Share of the days, the last ones, that is held back for measuring."""

_SECONDS = 1800
_MISSING = -1
_SCALE_WH, _TYPICAL_WH = 50.0, 150.0
_LOADS = np.log1p(np.arange(LIMIT_WH + 1) / _SCALE_WH)  # a table, so that no reading's rounding depends on another
_TYPICAL = float(np.log1p(_TYPICAL_WH / _SCALE_WH))
# Constants that give columns of households about the same spread and a record a length of about a half, for which the
# learners' clipping threshold and step size are made. They are public, and no privacy depends on them.
_CHANGE, _LEVEL, _WAVE, _BIAS = 0.32, 0.22, 0.22, 0.16
_ANGLES = 2 * np.pi * np.arange(HALF_HOURS)[:, np.newaxis] * np.array([1, 2]) / HALF_HOURS
_WAVES = _WAVE * np.hstack([np.sin(_ANGLES), np.cos(_ANGLES)])
_LEVEL_COLUMN = LAGS - 1
FEATURES = LAGS + _WAVES.shape[1] + 2
"""Columns of a record: changes, level, time of day, a constant, and the target."""


@dataclass(frozen=True, slots=True, eq=False)
class _Readings:
    """What records are made of, one after another.

    Attributes:
        wh: int64[n, LAGS + 1], clamped energies of half hours in a row; the last is to be predicted.
        half_hour: int64[n], of the last one, 0 … 47.
        days: int64[n], its day, from the first.
        meters: int64[n].
        before: int64[n], energy a day earlier, or -1.
    """

    wh: Integers
    half_hour: Integers
    days: Integers
    meters: Integers
    before: Integers


def forecast_dataset(
    wh: NDArray[np.integer],
    first: int,
    seconds: int,
    *,
    name: str,
    origin: str,
    share: float = HELD_OUT,
) -> DataSet:
    """Records of next-half-hour forecasting, of one day each; a half hour that misses a reading gives none.

    Records are grouped by meter. Their windows are days, numbered from 1970-01-01 where `first` counts from there. The
    test split is that of the last days, which no training record looks at, and of records with a reading of the day
    before; its baselines are `persistence` and `same_time_yesterday`.

    Args:
        wh: integer[meters, windows], the energy of each window in Wh, -1 where it is missing.
        first: number of the first column: a window w begins w · seconds after a midnight.
        seconds: length of a window; 1800, or a part of it.
        name: of the data set, for reports.
        origin: the file or source to name in an error.
        share: of the days to hold back, from 0 up to but not including 1.

    Raises:
        DataError: half hours cannot be made of such windows, or the share is out of range.
    """
    if not 0 <= share < 1:
        raise DataError(f"{origin}: test={share:g}: the share of days held back must be at least 0 and below 1")
    half_hours, start = _half_hours(wh, first, seconds, origin)
    days = _whole(half_hours, start, HALF_HOURS)
    first_day, count = start // HALF_HOURS, days.shape[1] // HALF_HOURS
    days = days.reshape(len(days), count, HALF_HOURS)
    learnt = count - round(count * share)
    train, test = _readings(days, 0, learnt), _readings(days, learnt, count)
    test = _at(test, np.flatnonzero(test.before >= 0))
    baselines = {"persistence": test.wh[:, -2] / 1000, "same_time_yesterday": test.before / 1000}
    return assembled(
        name,
        (_rows(train), np.zeros(len(train.days), dtype=np.int64)),
        test=(_rows(test), np.zeros(len(test.days), dtype=np.int64)) if len(test.days) else None,
        classes=1,
        windows=first_day + train.days,
        groups=train.meters,
        target=Target("kWh", told, baselines, overlap=LAGS + 1),
        origin=origin,
    )


def held_out(options: Mapping[str, str], origin: str) -> float:
    """The option `test` of a data SPEC: the share of the days to hold back.

    Raises:
        DataError: it is no number.
    """
    try:
        return float(options.get("test", HELD_OUT))
    except ValueError:
        raise DataError(f"{origin}: test={options['test']}: write a share of the days, such as test=0.25") from None


def features_of(wh: Integers, half_hour: Integers) -> Floats:
    """What a prediction is made from: a record without its target.

    Args:
        wh: int64[n, LAGS], energies in Wh of the half hours before, the latest last, from 0.
        half_hour: int64[n], the one to be predicted, 0 … 47, UTC.

    Returns:
        float64[n, FEATURES - 1], each row a function of its own readings, to the last bit.
    """
    loads = _LOADS[np.minimum(wh, LIMIT_WH)]
    rows = np.empty((len(wh), FEATURES - 1))
    rows[:, :_LEVEL_COLUMN] = _CHANGE * (loads[:, 1:] - loads[:, :-1])
    rows[:, _LEVEL_COLUMN] = _LEVEL * (loads[:, -1] - _TYPICAL)
    rows[:, LAGS:-1] = _WAVES[half_hour]
    rows[:, -1] = _BIAS
    return rows


@np.errstate(over="ignore")  # a model that diverged predicts the limit
def told(records: Floats, targets: Floats) -> Floats:
    """Predicted or true targets float64[N, m], of records float64[m, at least LAGS], as kWh in the half hour."""
    last = records[:, _LEVEL_COLUMN] / _LEVEL + _TYPICAL
    energies: Floats = np.clip(_SCALE_WH * np.expm1(last + targets), 0.0, LIMIT_WH) / 1000
    return energies


def _half_hours(wh: NDArray[np.integer], first: int, seconds: int, origin: str) -> tuple[Integers, int]:
    """Energies int64[meters, n] of half hours, and the number of the first; one that misses a part is missing."""
    if seconds < 1 or _SECONDS % seconds:
        raise DataError(f"{origin}: half hours cannot be made of windows of {seconds} s: choose 1800 s or a part of it")
    parts = _SECONDS // seconds
    split = _whole(wh, first, parts).reshape(len(wh), -1, parts)
    whole = np.add.reduce(split, axis=2)
    return np.where((split >= 0).all(axis=2), whole, _MISSING), first // parts


def _whole(wh: NDArray[np.integer], first: int, size: int) -> Integers:
    """The same, with missing ones before and after, so that runs of `size` begin and end with a multiple of it."""
    before = first % size
    after = -(before + wh.shape[1]) % size
    return np.pad(wh.astype(np.int64), ((0, 0), (before, after)), constant_values=_MISSING)


def _readings(days: Integers, begin: int, end: int) -> _Readings:
    """Of int64[meters, days, 48]: all runs of LAGS + 1 half hours within one of the days begin … end - 1."""
    read = days[:, begin:end] >= 0
    runs = read[:, :, LAGS:].copy()
    for lag in range(1, LAGS + 1):
        runs &= read[:, :, LAGS - lag : HALF_HOURS - lag]
    meters, day, half_hour = np.nonzero(runs)
    day, half_hour = day + begin, half_hour + LAGS
    wh = np.empty((len(day), LAGS + 1), dtype=np.int64)
    for column in range(LAGS + 1):
        wh[:, column] = days[meters, day, half_hour - LAGS + column]
    before = np.where(day > 0, days[meters, day - 1, half_hour], _MISSING)
    return _Readings(np.minimum(wh, LIMIT_WH), half_hour, day, meters, np.minimum(before, LIMIT_WH))


def _at(readings: _Readings, places: Integers) -> _Readings:
    return _Readings(
        readings.wh[places],
        readings.half_hour[places],
        readings.days[places],
        readings.meters[places],
        readings.before[places],
    )


def _rows(readings: _Readings) -> Floats:
    """Records float64[n, FEATURES]."""
    rows = np.empty((len(readings.days), FEATURES))
    rows[:, :-1] = features_of(readings.wh[:, :-1], readings.half_hour)
    rows[:, -1] = _LOADS[readings.wh[:, -1]] - _LOADS[readings.wh[:, -2]]
    return rows
