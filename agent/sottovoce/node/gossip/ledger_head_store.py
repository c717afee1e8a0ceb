"""On-disk store of each device's latest ledger head, used to detect devices restored from a copy.

A head is a signed statement of how much a device's ledger has charged and released. This store is not the only record
of the device's own spending, so an unreadable store is replaced by a new one. Until its peers resend their
heads, the device cannot confirm any of these heads, and its answers say so.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sottovoce.concurrency import Turn
from sottovoce.errors import DataError, MessageRefused
from sottovoce.net.wire import SignedHead
from sottovoce.storage.durable import is_disk_error
from sottovoce.storage.schema import Schema, use_log

NAME = "heads.db"
MAX_HEADS = 4096
_MAX_LIVES = 1024  # some 24 kB
_PAGES_BEFORE_CHECKPOINT = 256
_MAX_RECENT_HEADS = 128  # kept in memory, some 60 kB: a device sends to 64 peers at most in a cycle
_VERSION_1 = """
CREATE TABLE head (owner TEXT PRIMARY KEY, came INTEGER NOT NULL, key BLOB NOT NULL, charges INTEGER NOT NULL,
                   released INTEGER NOT NULL, mark BLOB NOT NULL, life BLOB NOT NULL, signature BLOB NOT NULL)
                   STRICT, WITHOUT ROWID;
"""
_VERSION_2 = """
-- A row of a table without row ids is an index entry, which would spill over from a small page.
ALTER TABLE head RENAME TO old_head;
CREATE TABLE head (owner TEXT PRIMARY KEY, came INTEGER NOT NULL, key BLOB NOT NULL, charges INTEGER NOT NULL,
                   released INTEGER NOT NULL, mark BLOB NOT NULL, life BLOB NOT NULL, signature BLOB NOT NULL) STRICT;
INSERT INTO head SELECT owner, came, key, charges, released, mark, life, signature FROM old_head;
DROP TABLE old_head;
"""
_VERSION_3 = """
CREATE TABLE life (number INTEGER PRIMARY KEY, life BLOB NOT NULL) STRICT;
"""
SCHEMA = Schema(
    0x50FF4EAD,
    "a ledger head database",
    (_VERSION_1, _VERSION_2, _VERSION_3),
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
        self._writing = Turn()
        self._recent_heads: OrderedDict[str, SignedHead] = OrderedDict()
        self._unwritten: dict[str, SignedHead] = {}
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

    def begin_life(self, life: bytes) -> frozenset[bytes]:
        """Store the life that begins, which survives a power cut, and return the last 1024 lives before it.

        Raises:
            DataError: if the file cannot be read or written; it is unchanged.
        """
        execute = self._connection.execute
        try:
            earlier_lives = frozenset(row[0] for row in execute("SELECT life FROM life"))
            with self._connection:
                execute("PRAGMA synchronous = FULL")
                execute("BEGIN IMMEDIATE")
                execute("INSERT INTO life (life) VALUES (?)", (life,))
                execute("DELETE FROM life WHERE number <= (SELECT max(number) FROM life) - ?", (_MAX_LIVES,))
        except sqlite3.DatabaseError as error:
            raise self._unusable_error(error) from error
        return earlier_lives

    def recent_head(self, owner: str) -> SignedHead | None:
        """Return a device's latest head if it is still in memory; this does not access the file."""
        return self._unwritten.get(owner) or self._recent_heads.get(owner)

    def get_head(self, owner: str) -> SignedHead | None:
        """Return a device's latest known head, or None if none is known.

        Raises:
            DataError: if the file cannot be read.
        """
        if (recent := self.recent_head(owner)) is not None:
            return recent
        try:
            row = self._connection.execute(
                "SELECT key, charges, released, mark, life, signature FROM head WHERE owner = ?", (owner,)
            ).fetchone()
            head = None if row is None else SignedHead(*row)
        except (sqlite3.DatabaseError, MessageRefused) as error:
            raise self._unusable_error(error) from error
        if head is not None:
            self._remember(head)
        return head

    def store_own_head(self, head: SignedHead) -> RecordedHead:
        """Store this device's own head; see `store_head`. Its first write does not wait for the disk either.

        After a power cut, the device's witnesses return its newest head.
        """
        return self._store(head, (), sync=False)

    def store_head(self, head: SignedHead, protected_owners: Collection[str]) -> RecordedHead:
        """Store a verified head if it is consistent with the device's last known head.

        The first head of a device, and the first after each of its restarts, are in the file on return, and survive a
        power cut. Later ones stay in memory until `write`, so that the heads of a cycle cost one commit.

        Args:
            head: the head as sent by its device.
            protected_owners: devices whose heads are never dropped to make room for others.

        Raises:
            DataError: if the head cannot be written; the file is unchanged.
        """
        return self._store(head, protected_owners, sync=True)

    def write(self) -> None:
        """Write the heads that are only in memory in one commit. It survives the process, but not every power cut.

        The kernel writes the commit to the disk within half a minute.

        Raises:
            DataError: if the heads cannot be written; the file is unchanged.
        """
        self._write(None, sync=False)

    def _store(self, head: SignedHead, protected_owners: Collection[str], *, sync: bool) -> RecordedHead:
        known = self.get_head(head.owner)
        if known == head:
            return RecordedHead(known, True)  # the head is already stored
        if known is not None and not is_consistent(head, known):
            return RecordedHead(known, False)
        self._unwritten.pop(head.owner, None)  # the newest is the last
        self._unwritten[head.owner] = head
        self._remember(head)
        if known is None or known.life != head.life:
            self._write(protected_owners, sync=sync)
        return RecordedHead(known, True)

    def _remember(self, head: SignedHead) -> None:
        # Two threads call this, so each line must be right by itself.
        self._recent_heads.pop(head.owner, None)
        self._recent_heads[head.owner] = head
        if len(self._recent_heads) > _MAX_RECENT_HEADS:
            self._recent_heads.popitem(last=False)

    def _write(self, protected_owners: Collection[str] | None, *, sync: bool) -> None:
        """Write the heads in memory, and make room for them unless `protected_owners` is None."""
        try:
            # Heads may be written from two threads, which share the connection.
            self._writing.run(partial(self._write_in_turn, protected_owners, sync=sync))
        except sqlite3.DatabaseError as error:
            raise self._unusable_error(error) from error

    def _write_in_turn(self, protected_owners: Collection[str] | None, *, sync: bool) -> None:
        heads, execute = list(self._unwritten.values()), self._connection.execute
        if not heads:
            return
        with self._connection:
            execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            execute("BEGIN IMMEDIATE")
            for head in heads:
                execute(  # changes a known row in place
                    "INSERT INTO head VALUES (?, (SELECT ifnull(max(came), 0) + 1 FROM head), ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT (owner) DO UPDATE SET came = excluded.came, key = excluded.key, "
                    "charges = excluded.charges, released = excluded.released, mark = excluded.mark, "
                    "life = excluded.life, signature = excluded.signature",
                    (head.owner, head.owner_key, head.charges, head.released, head.mark, head.life, head.signature),
                )
            if protected_owners is not None:
                self._make_room({heads[-1].owner, *protected_owners})
        for head in heads:
            if self._unwritten.get(head.owner) is head:
                del self._unwritten[head.owner]

    def close(self) -> None:
        """Write what is only in memory, and close the file.

        Raises:
            DataError: see `write`.
        """
        try:
            self.write()
        finally:
            self._connection.close()

    def _make_room(self, protected_owners: set[str]) -> None:
        execute = self._connection.execute
        excess = execute("SELECT count(*) FROM head").fetchone()[0] - MAX_HEADS
        if excess > 0:
            oldest = [
                owner for (owner,) in execute("SELECT owner FROM head ORDER BY came") if owner not in protected_owners
            ]
            for owner in oldest[:excess]:
                self._recent_heads.pop(owner, None)
                execute("DELETE FROM head WHERE owner = ?", (owner,))

    def _open_connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10)
        try:
            execute = connection.execute
            SCHEMA.upgrade(connection, self._path)
            use_log(connection)
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
