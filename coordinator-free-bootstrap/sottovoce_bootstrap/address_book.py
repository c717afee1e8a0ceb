"""Address book of devices that have answered, which helps a device that was off or cut off to find its fleet again.

The book is only a cache, because a device that has lost it starts from its seeds. A corrupt book is therefore replaced
with an empty one, and a power cut may lose the latest entries (SQLite, WAL, synchronous = NORMAL) but no others.
Entries are addresses to try and are not trusted. Many devices have no clock that survives a power cut, so the book
keeps its own time, which advances only while the book is open and resumes where it stopped.
"""

import json
import sqlite3
from contextlib import suppress
from pathlib import Path

from sottovoce.errors import DataError, MessageRefused
from sottovoce.storage.durable import is_disk_error
from sottovoce.storage.schema import Schema

from sottovoce_bootstrap.contact import Contact
from sottovoce_bootstrap.contacts import CAPACITY

LIFETIME = 30 * 86_400.0
"""Time in seconds, while the book is open, after which a device that has not answered again is dropped."""

REWRITE_SECONDS = 86_400.0
"""Time in seconds, while the book is open, for which writing an unchanged contact is delayed to reduce disk wear."""

_VERSION_1 = """
CREATE TABLE clock (seconds REAL NOT NULL);
INSERT INTO clock VALUES (0);
CREATE TABLE contact (node_id TEXT PRIMARY KEY, endpoints TEXT NOT NULL, answered REAL NOT NULL) WITHOUT ROWID;
"""
SCHEMA = Schema(
    0x50FFB00C,
    "a Sottovoce address book",
    (_VERSION_1,),
    "move peers.db, peers.db-wal and peers.db-shm away; the device then starts from its seeds",
)


class AddressBook:
    """An address book of at most 500 contacts, each of which is dropped after 30 days without an answer.

    Args:
        path: path of the file, which is created if missing.
        now: current time in seconds, on the same clock as in `remember`.

    Attributes:
        replaced: why an earlier book was discarded, as one sentence for the log; normally None.

    Raises:
        DataError: if the disk is full or failing, or this user has no access to the file.
    """

    def __init__(self, path: Path, now: float) -> None:
        self._path = path
        self.replaced: str | None = None
        try:
            if not path.exists():
                SCHEMA.create_database(self._path)
            try:
                self._connection, self._seconds = self._open()
            except (sqlite3.DatabaseError, ValueError) as error:
                if is_disk_error(error):
                    raise
                self.replaced = (
                    f"{path}: the address book was corrupt ({error}) and has been reset; the device will try its seeds"
                )
                SCHEMA.create_database(self._path)
                self._connection, self._seconds = self._open()
        except (sqlite3.DatabaseError, OSError) as error:
            raise self._unusable(error) from error
        self._opened = now
        self._unwritten: dict[str, tuple[str, float]] = {}
        self._written = self._entries()

    def contacts(self) -> list[Contact]:
        """Return all contacts, ordered by when they last answered, the most recent one last.

        Raises:
            DataError: if the book cannot be read.
        """
        try:
            rows = self._connection.execute("SELECT node_id, endpoints FROM contact ORDER BY answered").fetchall()
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error
        return [contact for row in rows if (contact := _contact(*row)) is not None]

    def remember(self, contact: Contact, now: float) -> None:
        """Add a contact that has just answered, or update it; drop contacts that are too old or too many.

        A new address, or one that was last written at least a day ago, is written immediately, with all pending
        entries.

        Raises:
            DataError: if the book cannot be written; the file is then unchanged.
        """
        seconds, endpoints = self._seconds + max(0.0, now - self._opened), json.dumps(contact.endpoints)
        previous_endpoints, answered = self._written.get(contact.node_id, ("", 0.0))
        self._unwritten.pop(contact.node_id, None)
        self._unwritten[contact.node_id] = (endpoints, seconds)
        if previous_endpoints != endpoints or seconds - answered >= REWRITE_SECONDS:
            self._write(seconds)

    def _write(self, seconds: float) -> None:
        execute = self._connection.execute
        try:
            with self._connection:
                execute("BEGIN IMMEDIATE")
                execute("UPDATE clock SET seconds = ?", (seconds,))
                for node, entry in self._unwritten.items():
                    execute("INSERT OR REPLACE INTO contact VALUES (?, ?, ?)", (node, *entry))
                execute("DELETE FROM contact WHERE answered < ?", (seconds - LIFETIME,))
                execute(
                    "DELETE FROM contact WHERE node_id IN "
                    "(SELECT node_id FROM contact ORDER BY answered DESC, node_id LIMIT -1 OFFSET ?)",
                    (CAPACITY,),
                )
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error
        self._unwritten.clear()
        self._written = self._entries()

    def _entries(self) -> dict[str, tuple[str, float]]:
        """Return the encoded endpoints and answer times of all contacts in the file, by node id."""
        try:
            rows = self._connection.execute("SELECT node_id, endpoints, answered FROM contact").fetchall()
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error
        return {node: (endpoints, answered) for node, endpoints, answered in rows}

    def close(self) -> None:
        """Write the pending entries, if possible, and close the file."""
        if self._unwritten:
            with suppress(DataError):
                self._write(max(seconds for _, seconds in self._unwritten.values()))
        self._connection.close()

    def _open(self) -> tuple[sqlite3.Connection, float]:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10)
        try:
            execute = connection.execute
            SCHEMA.upgrade(connection, self._path)
            execute("PRAGMA journal_mode = WAL")
            execute("PRAGMA synchronous = NORMAL")
            execute("PRAGMA cache_size = -128")  # KiB; SQLite's default is 2 MiB
            if (verdict := execute("PRAGMA quick_check").fetchone()[0]) != "ok":
                raise ValueError(verdict)
            if (row := execute("SELECT seconds FROM clock").fetchone()) is None:
                raise ValueError("the clock entry is missing")
            return connection, float(row[0])
        except BaseException:
            connection.close()
            raise

    def _unusable(self, error: Exception) -> DataError:
        return DataError(
            f"{self._path}: the address book cannot be used ({error}); free disk space and check the file's permissions"
        )


def _contact(node_id: str, endpoints: str) -> Contact | None:
    """Return the contact in a row, or None if AddressBook cannot have written the row."""
    try:
        return Contact(node_id, tuple(json.loads(endpoints)))
    except (ValueError, TypeError, MessageRefused):
        return None
