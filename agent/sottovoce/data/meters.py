"""`meters:FILE`: many smart meters, as records of mean daily loads, of each day's loads, or for forecasts."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.dataset import Table
from sottovoce.data.feed.records import daily_loads
from sottovoce.data.forecast import HALF_HOURS, forecast_table, held_out_share
from sottovoce.data.npz import load_arrays
from sottovoce.errors import DataError

_WH_IN_KWH = 1000.0
_TASKS = ("profile", "forecast", "days")


def load_meters(path: Path, options: Mapping[str, str]) -> Table:
    """Load `wh` integer[meters, half hours] from an npz file: readings in Wh from midnight on, -1 where one is missing.

    Each meter is a group. Its records depend on `task`:

    profile: one record with 48 features, the mean energy in kWh of each half hour over all days. Missing readings are
        ignored; a half hour that was never read is 0. There are no labels.
    days: one record per day with 48 features, the energy in kWh of each half hour; missing half hours are interpolated,
        and days without readings have no record. The record's window is the day, counted from 1970-01-01.
    forecast: records for next-half-hour forecasting, see sottovoce.data.forecast; the first day is number 0.

    Args:
        path: path of the npz file.
        options: `task`, `profile` by default; `test`, for a forecast: fraction of the days to hold out; `first`, for
            days: the date of the first day, by default 1970-01-01.

    Raises:
        DataError: if the file cannot be read or does not contain that array, or an option is invalid.
    """
    task = options.get("task", _TASKS[0])
    if task not in _TASKS:
        raise DataError(f"{path}: task={task}: choose one of {', '.join(_TASKS)}")
    if "first" in options and task != "days":
        raise DataError(
            f"{path}: first={options['first']}: only days are numbered by date; remove it, or use task=days"
        )
    wh = _load_energies(path)
    if task == "forecast":
        share = held_out_share(options, str(path))
        return forecast_table(wh, 0, 1800, name=f"meters:{path.name}", origin=str(path), share=share)
    if "test" in options:
        raise DataError(f"{path}: test={options['test']}: profiles have no test split; remove it, or use task=forecast")
    if task == "days":
        return _daily_dataset(path, wh, options.get("first", "1970-01-01"))
    return _profile_dataset(path, wh)


def _load_energies(path: Path) -> NDArray[np.integer]:
    arrays = load_arrays(path, frozenset({"wh"}))
    if "wh" not in arrays:
        raise DataError(f"{path}: the array wh is missing. Store readings in Wh as integer[meters, half hours].")
    wh = arrays["wh"]
    if wh.ndim != 2 or wh.dtype.kind != "i" or not wh.shape[1] or wh.shape[1] % HALF_HOURS:
        raise DataError(
            f"{path}: wh must contain whole days, each of {HALF_HOURS} half hours in Wh, with one row of integers per "
            "meter."
        )
    return wh


def _profile_dataset(path: Path, wh: NDArray[np.integer]) -> Table:
    days = wh.reshape(len(wh), -1, HALF_HOURS)
    has_reading = days >= 0
    energy = np.add.reduce(np.where(has_reading, days, 0), axis=1, dtype=np.int64) / _WH_IN_KWH
    profiles = energy / np.maximum(np.add.reduce(has_reading, axis=1, dtype=np.int64), 1)
    return Table(
        name=f"meters:{path.name}",
        rows=(profiles, np.zeros(len(wh), dtype=np.int64)),
        classes=2,
        groups=np.arange(len(wh)),
        origin=str(path),
    )


def _daily_dataset(path: Path, wh: NDArray[np.integer], first: str) -> Table:
    try:
        start = (date.fromisoformat(first) - date(1970, 1, 1)).days
    except ValueError:
        raise DataError(f"{path}: first={first}: must be a date, such as 2013-01-01") from None
    homes = [daily_loads(home.reshape(1, -1, HALF_HOURS)) for home in wh.astype(np.int64)]
    loads = np.concatenate([home for home, _ in homes])
    return Table(
        name=f"meters:{path.name}",
        rows=(loads, np.zeros(len(loads), dtype=np.int64)),
        classes=2,
        windows=start + np.concatenate([days for _, days in homes]),
        groups=np.repeat(np.arange(len(wh)), [len(days) for _, days in homes]),
        origin=str(path),
    )
