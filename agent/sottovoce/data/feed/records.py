"""`feed:mqtt://…#store=FILE`: a feed's windows as records for next-half-hour forecasting or as daily loads."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.dataset import Table
from sottovoce.data.feed.store import read_windows
from sottovoce.data.forecast import HALF_HOURS, daily_energy, forecast_table, held_out_share
from sottovoce.days import EXPORT
from sottovoce.errors import DataError

_TASKS = ("forecast", "profile")
_WH_IN_KWH = 1000.0


def load_feed(path: Path, options: Mapping[str, str]) -> Table:
    """Read records from a feed's windows. The window of each record is a day.

    A day's records are computed from that day's readings alone, so they do not depend on which other days or meters
    are in the store. They depend on `task`, which is `forecast` by default:

    forecast: see forecast_table.
    profile: one record per day with 48 features, the energy in kWh of each half hour, added up over the meters that
        have a reading on that day. A half hour in which one of these has no reading is interpolated between the
        nearest half hours of the same day.

    Args:
        path: path of the store.
        options: `task`; `meter`, one of the store's meters, by default all of them except the exports of net meters,
            whose names end in `-export`; `test`, the fraction of days, taken from the end, to hold out for evaluation,
            by default none.

    Raises:
        DataError: if the store does not exist, or its windows cannot be combined into half hours.
    """
    task = options.get("task", _TASKS[0])
    if task not in _TASKS:
        raise DataError(f"{path}: task={task}: choose {' or '.join(_TASKS)}")
    windows, meter = read_windows(path), options.get("meter")
    # A meter without windows is no error: whether it has any is a private fact.
    wh = windows.wh[[name == meter if meter else not name.endswith(EXPORT) for name in windows.meters]]
    if task == "profile":
        return _profile_table(path, *daily_energy(wh, windows.first, windows.seconds, str(path)))
    share = held_out_share(options, str(path)) if "test" in options else 0.0
    return forecast_table(wh, windows.first, windows.seconds, name=f"feed:{path.name}", origin=str(path), share=share)


def _profile_table(path: Path, days: NDArray[np.int64], first: int) -> Table:
    """Return the daily loads for loads int64[meters, days, 48] in Wh, -1 where one is missing, from day `first`."""
    loads, used = daily_loads(days)
    return Table(
        name=f"feed:{path.name}",
        rows=(loads, np.zeros(len(used), dtype=np.int64)),
        classes=2,
        windows=first + used,
        origin=str(path),
    )


def daily_loads(days: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the loads of a home's days, and the positions of the days with readings; see load_feed.

    Args:
        days: int64[meters, days, 48], energy of each half hour in Wh, -1 where it is missing.

    Returns:
        float64[n, 48] in kWh, and int64[n].
    """
    is_read = days >= 0
    is_present: NDArray[np.bool_] = np.logical_or.reduce(is_read, axis=2, keepdims=True)
    has_reading: NDArray[np.bool_] = np.logical_and.reduce(is_read | ~is_present, axis=0)
    has_reading &= np.logical_or.reduce(is_present, axis=0)
    energy = np.add.reduce(np.where(is_read, days, 0), axis=0) / _WH_IN_KWH
    used = np.flatnonzero(np.logical_or.reduce(has_reading, axis=1))
    half_hours = np.arange(HALF_HOURS)
    loads = [np.interp(half_hours, half_hours[has_reading[day]], energy[day, has_reading[day]]) for day in used]
    return np.array(loads).reshape(-1, HALF_HOURS), used
