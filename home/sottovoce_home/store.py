"""Write windows to the store, and summarise it without energy values. Of the readings, only the last is stored."""

import fcntl
import itertools
import logging
import os
import secrets
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec
from sottovoce.data.feed import Window
from sottovoce.data.feed.store import SCHEMA, StoreReading, unusable_error, window_seconds
from sottovoce.days import NOT_BEFORE
from sottovoce.errors import DataError
from sottovoce.storage.durable import rename, sqlite_code
from sottovoce.storage.schema import use_log

from sottovoce_home.meters import DayFacts

_log = logging.getLogger("sottovoce.home.store")
_DAY = 86_400
_OBSERVED_DAYS = 2


@dataclass(frozen=True, slots=True)
class MeterActivity:
    """Recent activity of a meter. Times are on this device's clock, in seconds of Unix time; 0 means never.

    Attributes:
        last_message_at: time of the newest message.
        last_accepted_at: time of the newest message that was accepted.
        last_refusal: reason why the newest message was refused; empty if it was accepted.
        new_counts: number of new counts that began because the meter was reset or replaced or its register overflowed.
    """

    last_message_at: int = 0
    last_accepted_at: int = 0
    last_refusal: str = ""
    new_counts: int = 0


class WindowStore:
    """A window store, opened for writing by at most one process at a time.

    A corrupt file is renamed and replaced by an empty one: its windows are lost to the device, but the feed continues.

    Args:
        path: path of the file, which is created with mode 0600 if it does not exist.
        seconds: length of a window, in seconds; all windows in a file have this length.
        keep_days: age in days, by the clock, beyond which `prune` deletes windows.

    Raises:
        DataError: if the store has another version or window length, is open in another process, or cannot be written.
    """

    def __init__(self, path: Path, seconds: int, keep_days: int) -> None:
        self._path, self._seconds = path, seconds
        self._keep_days, self._windows_per_day = keep_days, _DAY // seconds
        self._pruned_until = 0
        self._lock = _acquire_lock(path)
        try:
            try:
                self._open()
            except DataError as error:
                if not is_corrupt(error.__cause__):
                    raise
                self._replace()
        except BaseException:
            os.close(self._lock)
            raise

    def _replace(self) -> None:
        """Rename a corrupt file, which keeps what can be recovered from it, and begin an empty one."""
        self._connection.close()
        path, numbers = self._path, itertools.count(1)
        aside = next(name for n in numbers if not (name := path.with_name(f"{path.name}.corrupt-{n}")).exists())
        try:
            for suffix in ("", "-wal", "-shm"):
                if (file := path.with_name(path.name + suffix)).exists():
                    rename(file, aside.with_name(aside.name + suffix))
        except OSError as error:
            raise unusable_error(path, error) from error
        _log.error("store-replaced file=%s it was corrupt and is now %s", path, aside)
        self._open()

    def _open(self) -> None:
        path, seconds = self._path, self._seconds
        try:
            if not path.exists():
                _create(path, seconds)
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=10)
            self._execute = self._connection.execute
            SCHEMA.upgrade(self._connection, path)
            found, self.identifier = self._execute("SELECT seconds, identifier FROM feed").fetchone()
            if found != seconds:
                self._connection.close()
                raise DataError(
                    f"{path}: the store contains windows of {found} s, not {seconds} s; restore feed.window, or "
                    "set a different feed.store"
                )
            use_log(self._connection)
            self._execute("PRAGMA secure_delete = ON")
        except (sqlite3.DatabaseError, OSError, TypeError, ValueError) as error:
            raise unusable_error(path, error) from error

    def write(
        self,
        windows: Iterable[Window],
        refused: Mapping[tuple[str, str], int],
        activity: Mapping[str, MeterActivity] = MappingProxyType({}),
        states: Mapping[str, bytes] = MappingProxyType({}),
        observed: Mapping[tuple[str, int], DayFacts] = MappingProxyType({}),
    ) -> None:
        """Durably add windows and the refusals since the last call.

        Args:
            windows: finished windows; a window that is already stored is unchanged.
            refused: number of refusals since the last call, by meter and reason.
            activity: recent activity, by meter; `new_counts` includes only new counts since the last call.
            states: states from which the next process continues the meters' counts, by meter.
            observed: what the meters did, by meter and day; the facts of the last days are stored.

        Raises:
            DataError: if the disk is full or failing, or the file was corrupt and has been replaced; nothing has been
                written, and a later call may succeed.
        """
        execute = self._execute
        try:
            execute("BEGIN IMMEDIATE")
            try:
                for window in windows:
                    execute("INSERT OR IGNORE INTO meter (name) VALUES (?)", (window.meter,))
                    execute(
                        "INSERT OR IGNORE INTO window SELECT number, ?, ? FROM meter WHERE name = ?",
                        (window.number, window.wh, window.meter),
                    )
                for (meter, reason), count in refused.items():
                    execute(
                        "INSERT INTO refused VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
                        (meter, reason, count),
                    )
                for meter, entry in activity.items():
                    execute(
                        "INSERT INTO heard VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET came = excluded.came, kept "
                        "= max(kept, excluded.kept), refused = excluded.refused, counts = counts + excluded.counts",
                        (meter, entry.last_message_at, entry.last_accepted_at, entry.last_refusal, entry.new_counts),
                    )
                for meter, state in states.items():
                    execute("INSERT OR REPLACE INTO counter VALUES (?, ?)", (meter, state))
                for (meter, day), facts in observed.items():
                    execute(  # after a restart, the longer part of the day is kept
                        "INSERT INTO observed VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET readings = "
                        "excluded.readings, facts = excluded.facts WHERE excluded.readings >= readings",
                        (meter, day, facts.readings, msgspec.msgpack.encode(facts)),
                    )
                    execute("DELETE FROM observed WHERE meter = ? AND day < ?", (meter, day - _OBSERVED_DAYS))
                execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    execute("ROLLBACK")
                raise
        except sqlite3.DatabaseError as error:
            if is_corrupt(error):
                self._replace()
                raise DataError(
                    f"{self._path}: the store was corrupt ({error}) and has been replaced by an empty one; check the "
                    "disk"
                ) from error
            raise DataError(f"{self._path}: cannot write to the store ({error}); free up disk space") from error

    def states(self) -> dict[str, bytes]:
        """Return the states of the meters' counts when they were last written, by meter."""
        return dict(self._execute("SELECT meter, state FROM counter").fetchall())

    def prune(self, now: float) -> None:
        """Delete the windows of whole days that are too old by the clock, once a day.

        No reading decides which days are deleted: otherwise, the reading of one day would change the records of others.

        Args:
            now: the current Unix time, in seconds; a clock that has not been set deletes nothing.

        Raises:
            DataError: if the disk is full or failing; nothing has been deleted, and a later call may succeed.
        """
        first_kept = int(now // _DAY) - self._keep_days
        if now < NOT_BEFORE or first_kept <= self._pruned_until:
            return
        try:
            self._execute("DELETE FROM window WHERE number < ?", (first_kept * self._windows_per_day,))
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self._path}: cannot write to the store ({error}); free up disk space") from error
        self._pruned_until = first_kept

    def close(self) -> None:
        """Close the file and release its lock."""
        self._connection.close()
        os.close(self._lock)


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a window store for `feed show`: counts and times, but no energy values.

    Attributes:
        seconds: length of a window, in seconds.
        meters: number of windows, first window number and last window number, by meter name.
        refusals: number of refusals, by meter and reason.
        activity: recent activity, by meter.
    """

    seconds: int
    meters: dict[str, tuple[int, int, int]]
    refusals: dict[tuple[str, str], int]
    activity: dict[str, MeterActivity]


def read_summary(path: Path, *, create_no_files: bool = False) -> Summary:
    """Return the counts and times in a store, which the feed may be writing at the same time.

    Args:
        path: path of the store.
        create_no_files: whether to avoid creating SQLite's additional files if no process has the store open.

    Raises:
        DataError: if the store does not exist or is corrupt.
    """
    with StoreReading(
        path, is_closed=create_no_files and not path.with_name(path.name + "-wal").exists()
    ) as connection:
        found = connection.execute(
            "SELECT name, COUNT(*), MIN(window.number), MAX(window.number) FROM window JOIN meter "
            "ON meter.number = window.meter GROUP BY name ORDER BY name"
        ).fetchall()
        refused = connection.execute("SELECT meter, reason, count FROM refused ORDER BY meter, reason").fetchall()
        heard: list[tuple[str, int, int, str, int]] = []
        if SCHEMA.version(connection, path) > 1:  # the feed upgrades an older store when it next starts
            heard = connection.execute("SELECT meter, came, kept, refused, counts FROM heard ORDER BY meter").fetchall()
        return Summary(
            window_seconds(connection),
            {name: (count, first, last) for name, count, first, last in found},
            {(meter, reason): count for meter, reason, count in refused},
            {name: MeterActivity(came, kept, reason, counts) for name, came, kept, reason, counts in heard},
        )


def is_corrupt(error: BaseException | None) -> bool:
    """Return whether SQLite found that a file is corrupt."""
    return error is not None and sqlite_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _acquire_lock(path: Path) -> int:
    """Lock a store and return the descriptor of its lock file, which is separate because SQLite locks the store."""
    lock = path.with_name(path.name + ".lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise DataError(
            f"{lock}: {error.strerror}; set feed.store to a file in a directory where you have write permission"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise DataError(f"{path}: another `sottovoce feed run` is writing these windows; stop it first") from error
    return descriptor


def _create(path: Path, seconds: int) -> None:
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    connection = sqlite3.connect(draft, isolation_level=None)
    try:
        SCHEMA.create(connection)
        connection.execute("INSERT INTO feed VALUES (?, ?)", (seconds, secrets.token_hex(6)))
    finally:
        connection.close()
    rename(draft, path)
