"""`meters:FILE`: many smart meters, one record each: the mean load of a day, half hour by half hour."""

from pathlib import Path

import numpy as np

from sottovoce.data.dataset import DataSet, assembled
from sottovoce.data.npz import arrays_of
from sottovoce.errors import DataError

POINTS = 48
"""Half hours in a day."""

_WH_IN_KWH = 1000.0


def load_meters(path: Path) -> DataSet:
    """Load `wh` integer[meters, half hours] of an npz file: readings in Wh from midnight on, -1 where one is missing.

    Each meter becomes one record of 48 features, the mean over days of the energy of each half hour in kWh. Missing
    readings count for nothing; a half hour that was never read is 0. There are no labels. Each meter is a group.

    Args:
        path: the file.

    Raises:
        DataError: the file cannot be read, or holds no such array.
    """
    arrays = arrays_of(path, frozenset({"wh"}))
    if "wh" not in arrays:
        raise DataError(f"{path}: there is no array wh. Store readings in Wh as integer[meters, half hours].")
    wh = arrays["wh"]
    if wh.ndim != 2 or wh.dtype.kind != "i" or not wh.shape[1] or wh.shape[1] % POINTS:
        raise DataError(f"{path}: wh must hold whole days of {POINTS} half hours in Wh, one row of integers a meter.")
    days = wh.reshape(len(wh), -1, POINTS)
    read = days >= 0
    energy = np.add.reduce(np.where(read, days, 0), axis=1, dtype=np.int64) / _WH_IN_KWH
    profiles = energy / np.maximum(np.add.reduce(read, axis=1, dtype=np.int64), 1)
    return assembled(
        f"meters:{path.name}",
        (profiles, np.zeros(len(wh), dtype=np.int64)),
        classes=2,
        groups=np.arange(len(wh)),
        origin=str(path),
    )
