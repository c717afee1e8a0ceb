"""Windows of energy, and the SQLite file in which a home's feed stores them."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import DataError
from sottovoce.storage.schema import Schema

MISSING = -1


@dataclass(frozen=True, slots=True)
class Window:
    """A finished window.

    Attributes:
        meter: name of the meter.
        number: Unix time at the start of the window, divided by its length.
        wh: energy in Wh, non-negative.
    """

    meter: str
    number: int
    wh: int


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows of several meters, one row per meter.

    Attributes:
        meters: meter names, in row order.
        first: window number of the first column; window w lasts from w · seconds to (w + 1) · seconds of Unix time,
            UTC.
        seconds: length of a window, in seconds.
        wh: int64[meters, windows], energy of each window in Wh, -1 where it is missing.
    """

    meters: tuple[str, ...]
    first: int
    seconds: int
    wh: NDArray[np.int64]


_MAX_WINDOWS = 10_000_000  # 570 years of half-hours; a larger number means that the file is corrupt
_VERSION_1 = """
CREATE TABLE feed (seconds INTEGER NOT NULL, identifier TEXT NOT NULL);
CREATE TABLE meter (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE window (
    meter INTEGER NOT NULL, number INTEGER NOT NULL, wh INTEGER NOT NULL CHECK (wh >= 0), PRIMARY KEY (meter, number)
) WITHOUT ROWID;
CREATE TABLE refused (meter TEXT NOT NULL, reason TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (meter, reason));
"""
_VERSION_2 = """
CREATE TABLE heard (
    meter TEXT PRIMARY KEY, came INTEGER NOT NULL, kept INTEGER NOT NULL, refused TEXT NOT NULL, counts INTEGER NOT NULL
);
"""
_VERSION_3 = "CREATE TABLE counter (meter TEXT PRIMARY KEY, state BLOB NOT NULL);"
_VERSION_4 = """
CREATE TABLE observed (
    meter TEXT NOT NULL, day INTEGER NOT NULL, readings INTEGER NOT NULL, facts BLOB NOT NULL, PRIMARY KEY (meter, day)
);
"""
SCHEMA = Schema(
    0x50FFFEED,
    "a store of windows",
    (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4),
    "move the file away and collect the data again",
)


def read_windows(path: Path, since: int = 0) -> Windows:
    """Return the windows in a store, which the feed may be writing at the same time.

    Args:
        path: path of the store.
        since: number of the first window to return.

    Raises:
        DataError: if the store does not exist or is corrupt.
    """
    with StoreReading(path) as connection:
        seconds = window_seconds(connection)
        meters = connection.execute("SELECT number, name FROM meter ORDER BY name").fetchall()
        stored_windows = connection.execute(
            "SELECT window.meter, window.number, wh FROM meter JOIN window "
            "ON window.meter = meter.number AND window.number >= ?",
            (since,),
        ).fetchall()
        rows = np.array(stored_windows, dtype=np.int64).reshape(-1, 3)
        if not len(rows):
            return Windows(tuple(name for _, name in meters), 0, seconds, np.empty((len(meters), 0), dtype=np.int64))
        first, last = int(rows[:, 1].min()), int(rows[:, 1].max())
        if first < 0 or last - first >= _MAX_WINDOWS:
            raise ValueError("its window numbers are out of range")
        wh = np.full((len(meters), last - first + 1), MISSING, dtype=np.int64)
        row_by_meter = {number: row for row, (number, _) in enumerate(meters)}
        wh[[row_by_meter[number] for number in rows[:, 0].tolist()], rows[:, 1] - first] = rows[:, 2]
        return Windows(tuple(name for _, name in meters), first, seconds, wh)


class StoreReading:
    """Context that opens a store for reading and reports every failure as a DataError.

    Args:
        path: path of the store.
        is_closed: whether no process has the store open.
    """

    def __init__(self, path: Path, *, is_closed: bool = False) -> None:
        self._path = path
        self._mode = "mode=ro&immutable=1" if is_closed else "mode=ro"

    def __enter__(self) -> sqlite3.Connection:
        if not self._path.exists():
            raise DataError(f"{self._path}: there are no windows yet; start `sottovoce feed run --config FILE`")
        try:
            uri = f"{self._path.absolute().as_uri()}?{self._mode}"
            self._connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)
        except sqlite3.DatabaseError as error:
            raise unusable_error(self._path, error) from error
        try:
            SCHEMA.version(self._connection, self._path)
            self._connection.execute("BEGIN")
        except (sqlite3.DatabaseError, ValueError) as error:
            self._connection.close()
            raise unusable_error(self._path, error) from error
        return self._connection

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._connection.close()
        if isinstance(error, (sqlite3.DatabaseError, OverflowError, KeyError, TypeError, ValueError)):
            raise unusable_error(self._path, error) from error


def window_seconds(connection: sqlite3.Connection) -> int:
    """Return the length of a store's windows, in seconds."""
    return int(connection.execute("SELECT seconds FROM feed").fetchone()[0])


def unusable_error(path: Path, error: Exception) -> DataError:
    """Return the error for a store that cannot be opened or has wrong content."""
    return DataError(
        f"{path}: the window store cannot be opened or is corrupt ({error}); check the disk and the file's "
        "permissions, or rename the file and collect the data again"
    )
