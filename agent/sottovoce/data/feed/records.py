"""`feed:mqtt://…#store=FILE`: a feed's windows as records for next-half-hour forecasting or as daily loads."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.dataset import DataSet, assemble_dataset
from sottovoce.data.feed.store import read_windows
from sottovoce.data.forecast import HALF_HOURS, daily_energy, forecast_dataset, held_out_share
from sottovoce.days import EXPORT
from sottovoce.errors import DataError

_TASKS = ("forecast", "profile")
_WH_IN_KWH = 1000.0


def load_feed(path: Path, options: Mapping[str, str]) -> DataSet:
    """Load records from a feed's windows. In the data set, the window of each record is a day.

    The records depend on `task`, which is `forecast` by default:

    forecast: see forecast_dataset.
    profile: one record per day with 48 features, the energy in kWh of each half hour over all meters together. A half
        hour without a reading gets its average over the days that have a reading; a half hour never read is 0.

    Args:
        path: path of the store.
        options: `task`; `meter`, one of the store's meters, by default all of them except the exports of net meters;
            `test`, the fraction of days, taken from the end, to hold out for evaluation, by default none.

    Raises:
        DataError: if the store or meter does not exist, or its windows cannot be combined into half hours.
    """
    windows = read_windows(path)
    wh = windows.wh
    if (meter := options.get("meter")) is not None:
        if meter not in windows.meters:
            raise DataError(f"{path}: there are no windows for the meter {meter!r} yet; see `sottovoce feed show`")
        wh = wh[[windows.meters.index(meter)]]
    else:
        wh = wh[[name.removesuffix(EXPORT) not in {*windows.meters} - {name} for name in windows.meters]]
    task = options.get("task", _TASKS[0])
    if task not in _TASKS:
        raise DataError(f"{path}: task={task}: choose {' or '.join(_TASKS)}")
    if task == "profile":
        return _profile_dataset(path, *daily_energy(wh, windows.first, windows.seconds, str(path)))
    share = held_out_share(options, str(path)) if "test" in options else 0.0
    return forecast_dataset(wh, windows.first, windows.seconds, name=f"feed:{path.name}", origin=str(path), share=share)


def _profile_dataset(path: Path, days: NDArray[np.int64], first: int) -> DataSet:
    """Return the data set for loads int64[meters, days, 48] in Wh, -1 where one is missing, from day number `first`."""
    has_reading: NDArray[np.bool_] = np.logical_and.reduce(days >= 0, axis=0) & (len(days) > 0)
    energy = np.where(has_reading, np.add.reduce(days, axis=0), 0) / _WH_IN_KWH
    mean_energy = np.add.reduce(energy, axis=0) / np.maximum(np.add.reduce(has_reading, axis=0, dtype=np.int64), 1)
    is_used: NDArray[np.bool_] = np.logical_or.reduce(has_reading, axis=1)
    loads = np.where(has_reading, energy, mean_energy)[is_used].reshape(-1, HALF_HOURS)
    return assemble_dataset(
        f"feed:{path.name}",
        (loads, np.zeros(len(loads), dtype=np.int64)),
        classes=2,
        windows=first + np.flatnonzero(is_used),
        origin=str(path),
    )
