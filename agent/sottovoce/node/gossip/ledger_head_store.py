"""On-disk store of each device's latest ledger head, used to detect devices restored from a copy.

A head is a signed statement of how much a device's ledger has charged and released. This store is not the only record
of the device's own spending, so an unreadable store is replaced by a new one. Until its peers resend their
heads, the device cannot confirm any of these heads, and its answers say so.
"""

import sqlite3
from collections.abc import Collection
from dataclasses import astuple, dataclass
from pathlib import Path

from sottovoce.errors import DataError, MessageRefused
from sottovoce.net.wire import SignedHead
from sottovoce.storage.durable import is_disk_error
from sottovoce.storage.schema import Schema

NAME = "heads.db"
MAX_HEADS = 4096
_PAGES_BEFORE_CHECKPOINT = 64
_VERSION_1 = """
CREATE TABLE head (owner TEXT PRIMARY KEY, came INTEGER NOT NULL, key BLOB NOT NULL, charges INTEGER NOT NULL,
                   released INTEGER NOT NULL, mark BLOB NOT NULL, life BLOB NOT NULL, signature BLOB NOT NULL)
                   STRICT, WITHOUT ROWID;
"""
SCHEMA = Schema(
    0x50FF4EAD,
    "a ledger head database",
    (_VERSION_1,),
    f"move {NAME}, {NAME}-wal and {NAME}-shm aside; this device then cannot confirm other devices' ledger heads "
    "until those devices resend them",
)


@dataclass(frozen=True, slots=True)
class RecordedHead:
    """Outcome of recording a head.

    Attributes:
        known: the device's latest head known before this one; None if there was none.
        is_consistent: whether a single ledger can have had the known head first and the new one later; a head that is
            not consistent is not stored.
    """

    known: SignedHead | None
    is_consistent: bool


class LedgerHeadStore:
    """Store for the ledger heads of at most 4096 devices; beyond that, the least recently changed are dropped.

    Args:
        path: path of the file, which is created if missing.

    Attributes:
        creation_reason: reason why a new file was created; None if an intact one existed.

    Raises:
        DataError: if the disk is full or failing, or this user may not access the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.creation_reason: str | None = None
        try:
            if not path.exists():
                self.creation_reason = "there was no ledger head database"
                SCHEMA.create_database(self._path)
            try:
                self._connection = self._open_connection()
            except (sqlite3.DatabaseError, ValueError) as error:
                if is_disk_error(error):
                    raise
                self.creation_reason = f"the database was corrupt ({error})"
                SCHEMA.create_database(self._path)
                self._connection = self._open_connection()
        except (sqlite3.DatabaseError, OSError) as error:
            raise self._unusable_error(error) from error

    def get_head(self, owner: str) -> SignedHead | None:
        """Return a device's latest known head, or None if none is known.

        Raises:
            DataError: if the file cannot be read.
        """
        try:
            row = self._connection.execute(
                "SELECT key, charges, released, mark, life, signature FROM head WHERE owner = ?", (owner,)
            ).fetchone()
            return None if row is None else SignedHead(*row)
        except (sqlite3.DatabaseError, MessageRefused) as error:
            raise self._unusable_error(error) from error

    def store_own_head(self, head: SignedHead) -> RecordedHead:
        """Store this device's own head; it survives the process, but may be lost in a power cut.

        After a power cut, the device's witnesses return its newest head.

        Raises:
            DataError: see `store_head`.
        """
        self._set_synchronous("NORMAL")
        try:
            return self.store_head(head, ())
        finally:
            self._set_synchronous("FULL")

    def store_head(self, head: SignedHead, protected_owners: Collection[str]) -> RecordedHead:
        """Store a verified head if it is consistent with the device's last known head; it is durable on return.

        Args:
            head: the head as sent by its device.
            protected_owners: devices whose heads are never dropped to make room for others.

        Raises:
            DataError: if the head cannot be written; the file is unchanged.
        """
        owner, known = head.owner, self.get_head(head.owner)
        if known == head:
            return RecordedHead(known, True)  # the head is already stored
        if known is not None and not is_consistent(head, known):
            return RecordedHead(known, False)
        execute = self._connection.execute
        try:
            with self._connection:
                execute("BEGIN IMMEDIATE")
                execute(
                    "INSERT OR REPLACE INTO head VALUES (?, (SELECT ifnull(max(came), 0) + 1 FROM head), "
                    "?, ?, ?, ?, ?, ?)",
                    (owner, *astuple(head)),
                )
                if known is None:
                    self._make_room({owner, *protected_owners})
        except sqlite3.DatabaseError as error:
            raise self._unusable_error(error) from error
        return RecordedHead(known, True)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _set_synchronous(self, synchronous: str) -> None:
        try:
            self._connection.execute(f"PRAGMA synchronous = {synchronous}")
        except sqlite3.DatabaseError as error:
            raise self._unusable_error(error) from error

    def _make_room(self, protected_owners: set[str]) -> None:
        execute = self._connection.execute
        excess = execute("SELECT count(*) FROM head").fetchone()[0] - MAX_HEADS
        if excess > 0:
            oldest = [
                owner for (owner,) in execute("SELECT owner FROM head ORDER BY came") if owner not in protected_owners
            ]
            for owner in oldest[:excess]:
                execute("DELETE FROM head WHERE owner = ?", (owner,))

    def _open_connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10)
        try:
            execute = connection.execute
            SCHEMA.upgrade(connection, self._path)
            execute("PRAGMA journal_mode = WAL")
            execute("PRAGMA synchronous = FULL")
            execute(f"PRAGMA wal_autocheckpoint = {_PAGES_BEFORE_CHECKPOINT}")
            if (verdict := execute("PRAGMA quick_check").fetchone()[0]) != "ok":
                raise ValueError(verdict)
        except BaseException:
            connection.close()
            raise
        return connection

    def _unusable_error(self, error: Exception) -> DataError:
        return DataError(
            f"{self._path}: cannot use the stored ledger heads ({error}); free up disk space and check the "
            "file's permissions, or move the file aside if it is corrupt"
        )


def is_consistent(head: SignedHead, known: SignedHead) -> bool:
    """Return whether both heads can come from a single ledger, first `known` and then `head`."""
    previous_counts, counts = (known.charges, known.released), (head.charges, head.released)
    if counts == previous_counts:
        return head.mark == known.mark
    return counts[0] >= previous_counts[0] and counts[1] >= previous_counts[1]
