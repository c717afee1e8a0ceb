"""On-disk store of the published records that a device holds. All are public, and gossip refills a lost store."""

import logging
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from google.protobuf.message import DecodeError

from sottovoce.errors import DataError, MessageRefused
from sottovoce.learning.learners import PublishedRecord
from sottovoce.net.wire.published import records_from_wire, records_to_wire
from sottovoce.net.wire.v1 import golf_pb2
from sottovoce.storage.schema import Schema, use_log

_log = logging.getLogger(__name__)
NAME = "records.db"
_VERSION_1 = """
CREATE TABLE record (owner TEXT NOT NULL, slot INTEGER NOT NULL, published BLOB NOT NULL, PRIMARY KEY (owner, slot));
"""
_VERSION_2 = """
CREATE TABLE task (epoch INTEGER NOT NULL);
INSERT INTO task VALUES (0);
"""
SCHEMA = Schema(
    0x50FF4EC0,
    "a published record database",
    (_VERSION_1, _VERSION_2),
    f"move {NAME}, {NAME}-wal and {NAME}-shm aside; peers will send the records again",
)


class RecordStore:
    """Store for published records. A corrupt store is replaced with an empty one; a full disk stops the agent.

    Args:
        path: path of the file, which is created if it is missing.
        epoch: epoch of the fleet task for which the records are published, 0 for none; records of an earlier epoch are
            deleted.

    Raises:
        DataError: if the store cannot be created.
    """

    def __init__(self, path: Path, epoch: int = 0) -> None:
        self._path, self._epoch = path, epoch
        try:
            self._connection = _open_connection(path, epoch)
        except (sqlite3.DatabaseError, ValueError) as error:
            _log.warning("records-lost %s: the record database could not be read and was reset (%s)", path, error)
            self._connection = self._recreate()

    def load(self) -> tuple[PublishedRecord, ...]:
        """Return all records in the store; if its content is corrupt, reset the store and return no records."""
        try:
            return tuple(_decode_records(self._connection))
        except (sqlite3.DatabaseError, DecodeError, MessageRefused) as error:
            _log.warning("records-lost %s: the record database could not be read and was reset (%s)", self._path, error)
            self._connection.close()
            self._connection = self._recreate()
            return ()

    def update(self, new_records: Iterable[PublishedRecord], removed_records: Iterable[PublishedRecord]) -> None:
        """Write new records and delete others in a single transaction.

        Raises:
            DataError: if the disk is full or failing.
        """
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            for record in removed_records:
                execute("DELETE FROM record WHERE owner = ? AND slot = ?", record.key)
            for record in new_records:
                (group,) = records_to_wire([record])
                execute("INSERT OR REPLACE INTO record VALUES (?, ?, ?)", (*record.key, group.SerializeToString()))
            execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise DataError(f"cannot write {self._path} ({error}); free up disk space") from error

    def close(self) -> None:
        """Close the database file."""
        self._connection.close()

    def _recreate(self) -> sqlite3.Connection:
        try:
            SCHEMA.create_database(self._path)
            return _open_connection(self._path, self._epoch)
        except (sqlite3.DatabaseError, OSError) as error:
            raise DataError(
                f"cannot create {self._path} ({error}); free up disk space and check the directory's permissions"
            ) from error


def read(path: Path) -> tuple[PublishedRecord, ...]:
    """Return the records in a device's store, even while its agent is running.

    Raises:
        DataError: if the store is missing or corrupt.
    """
    if not path.is_file():
        raise DataError(f"{path}: no published records are stored here; specify a golf agent's state directory")
    try:
        connection = sqlite3.connect(f"file:{path.absolute()}?mode=ro", uri=True, timeout=10)
        try:
            SCHEMA.version(connection, path)
            return tuple(_decode_records(connection))
        finally:
            connection.close()
    except (sqlite3.DatabaseError, DecodeError, MessageRefused, ValueError) as error:
        raise DataError(
            f"{path}: the published records are corrupt ({error}); specify another agent's state directory"
        ) from error


def _open_connection(path: Path, epoch: int) -> sqlite3.Connection:
    is_new = not path.exists()
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    try:
        if is_new:
            path.chmod(0o600)
            SCHEMA.create(connection)
        SCHEMA.upgrade(connection, path)
        use_log(connection, "NORMAL")  # records lost in the last second are received again
        if connection.execute("SELECT epoch FROM task").fetchone()[0] < epoch:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM record")
            connection.execute("UPDATE task SET epoch = ?", (epoch,))
            connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _decode_records(connection: sqlite3.Connection) -> Iterable[PublishedRecord]:
    for (raw,) in connection.execute("SELECT published FROM record"):
        yield from records_from_wire([golf_pb2.PublishedRecords.FromString(raw)])
