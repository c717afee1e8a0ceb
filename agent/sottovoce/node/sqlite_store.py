"""Durable state of an agent in one SQLite file; every commit is on disk before the call returns."""

import hashlib
import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from sottovoce.algorithms.state_codec import ModelSizeMismatch, PartsCodec, StateCodec
from sottovoce.errors import DataError
from sottovoce.learning.learners import Learner
from sottovoce.node.links import NewestMessage, Outgoing, SavedState
from sottovoce.plugins import find_author
from sottovoce.storage.durable import is_disk_error, rename
from sottovoce.storage.schema import PAGE_BYTES, Schema, use_log

_VERSION_1 = """
CREATE TABLE life (incarnation INTEGER NOT NULL);
CREATE TABLE learner (one INTEGER PRIMARY KEY CHECK (one = 1), state BLOB NOT NULL);
CREATE TABLE outbox (recipient TEXT PRIMARY KEY, sequence INTEGER NOT NULL, parcel BLOB NOT NULL);
CREATE TABLE sequence (recipient TEXT PRIMARY KEY, sequence INTEGER NOT NULL);
CREATE TABLE seen (sender TEXT PRIMARY KEY, incarnation INTEGER NOT NULL, sequence INTEGER NOT NULL);
"""
_VERSION_2 = """
ALTER TABLE outbox RENAME TO old_outbox;
ALTER TABLE sequence RENAME TO old_sequence;
ALTER TABLE seen RENAME TO old_seen;
CREATE TABLE outbox (recipient TEXT PRIMARY KEY, sequence INTEGER NOT NULL, parcel BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE sequence (recipient TEXT PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE seen (sender TEXT PRIMARY KEY, incarnation INTEGER NOT NULL, sequence INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO outbox SELECT recipient, sequence, parcel FROM old_outbox;
INSERT INTO sequence SELECT recipient, sequence FROM old_sequence;
INSERT INTO seen SELECT sender, incarnation, sequence FROM old_seen;
DROP TABLE old_outbox;
DROP TABLE old_sequence;
DROP TABLE old_seen;
"""
_VERSION_3 = """
ALTER TABLE seen ADD COLUMN refused TEXT NOT NULL DEFAULT '';
"""
_VERSION_4 = """
-- Push-sum's numerator is packed.
"""
_VERSION_5 = """
ALTER TABLE life ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
"""
_VERSION_6 = """
CREATE TABLE part (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE link (peer TEXT PRIMARY KEY, sequence INTEGER NOT NULL DEFAULT 0, parcel BLOB NOT NULL DEFAULT x'',
                   unconfirmed INTEGER NOT NULL DEFAULT 0, incarnation INTEGER, newest INTEGER NOT NULL DEFAULT 0,
                   refused TEXT NOT NULL DEFAULT '');
INSERT INTO link (peer, sequence) SELECT recipient, sequence FROM sequence;
INSERT INTO link (peer, sequence, parcel, unconfirmed) SELECT recipient, sequence, parcel, parcel != x'' FROM outbox
    WHERE true ON CONFLICT (peer) DO UPDATE SET parcel = excluded.parcel, unconfirmed = excluded.unconfirmed;
INSERT INTO link (peer, incarnation, newest, refused) SELECT sender, incarnation, sequence, refused FROM seen WHERE true
    ON CONFLICT (peer) DO UPDATE SET incarnation = excluded.incarnation, newest = excluded.newest,
    refused = excluded.refused;
DROP TABLE outbox;
DROP TABLE sequence;
DROP TABLE seen;
"""
_SEND = """
INSERT INTO link (peer, sequence, parcel, unconfirmed) VALUES (?, ?, ?, 1)
    ON CONFLICT (peer) DO UPDATE SET sequence = excluded.sequence, parcel = excluded.parcel, unconfirmed = 1
    WHERE unconfirmed = 0
"""
_RESERVE = """
INSERT INTO link (peer, sequence) VALUES (?, ?) ON CONFLICT (peer) DO UPDATE SET sequence = excluded.sequence
"""
_RECEIVE = """
INSERT INTO link (peer, incarnation, newest, refused) VALUES (?, ?, ?, ?) ON CONFLICT (peer) DO UPDATE
    SET incarnation = excluded.incarnation, newest = excluded.newest, refused = excluded.refused
"""
_LARGE_STATE, _LARGE_PAGE_BYTES = 2**16, 4096  # a large state fills whole pages anyway; larger pages are faster
_START_AGAIN = (
    "move state.db, state.db-wal and state.db-shm aside; the device then rejoins without its state, in a new "
    "incarnation, and keeps its ledger"
)
SCHEMA = Schema(
    0x50FF57A7,
    "a Sottovoce state database",
    (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4, _VERSION_5, _VERSION_6),
    _START_AGAIN,
)


class SqliteStore:
    """A sottovoce.node.links.Store in a SQLite file.

    A device's first start begins its first incarnation, with the learner's `fresh` state. If the file is lost later,
    the next start begins another incarnation, with the learner's `without_state` state: the content of the lost state
    is gone, but it is never counted twice.

    Args:
        directory: the agent's state directory.
        learner: learner that provides the first state.
        codec: codec for the learner's states.
        release_count: number of answers already in the ledger; a device that lost its state does not apply them again.
        epoch: epoch of the fleet task that the state belongs to; 0 if there is none. A higher epoch than the stored one
            starts a new incarnation and discards the earlier task's state.

    Raises:
        DataError: if the file is corrupt, has another version, or cannot be written.
    """

    def __init__(
        self, directory: Path, learner: Learner[Any], codec: StateCodec, release_count: int, epoch: int = 0
    ) -> None:
        self._codec = codec
        self._plugin = find_author(type(learner))
        self._digests: dict[str, bytes] = {}
        self._path = directory / "state.db"
        counter = directory / "incarnation"
        try:
            if not self._path.exists():
                incarnation = _next_incarnation(counter, release_count)
                state = learner.initial_state() if incarnation == 1 else learner.without_state(release_count)
                self._create_database(incarnation, state, epoch)
            self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10)
            self.incarnation = self._open_database()
            self._begin_task_if_newer(learner, release_count, epoch)
            if _read_counter(counter) != self.incarnation:
                _write_counter(counter, str(self.incarnation))
        except (sqlite3.DatabaseError, ValueError) as error:
            raise self._unusable_error(error) from error
        except OSError as error:
            raise DataError(
                f"{self._path}: {error.strerror}; free up disk space and check the file's permissions"
            ) from error

    def load(self) -> SavedState:
        """Return the most recently committed data.

        Raises:
            DataError: if the file is corrupt, or the state is of a model of another size.
            PluginError: if another package's learner cannot restore the state that it has stored.
        """
        execute = self._connection.execute
        try:
            outbox = [
                Outgoing(*entry)
                for entry in execute("SELECT peer, sequence, parcel FROM link WHERE unconfirmed ORDER BY peer")
            ]
            sequences = dict(execute("SELECT peer, sequence FROM link WHERE sequence > 0").fetchall())
            seen = {
                sender: NewestMessage(*newest)
                for sender, *newest in execute(
                    "SELECT peer, incarnation, newest, refused FROM link WHERE incarnation IS NOT NULL"
                )
            }
            parts = read_parts(self._connection)
            self._digests = _digest_parts(parts)
            return SavedState(self._decode(b"".join(parts.values())), outbox, sequences, seen)
        except ModelSizeMismatch as error:
            raise DataError(
                f"{self._path}: {error}; restore the previous features, classes and transform under [data]"
            ) from error
        except (sqlite3.DatabaseError, DecodeError, ValueError, TypeError) as error:
            raise self._unusable_error(error) from error

    def commit(
        self, state: Any, sent: Sequence[Outgoing], confirmed: Sequence[str], received: tuple[str, NewestMessage] | None
    ) -> None:
        """Write all changes in one transaction; see Store.commit.

        Raises:
            DataError: if the disk is full or failing; in that case nothing was written.
        """
        execute = self._connection.execute
        parts = self._encode_parts(state)
        digests = _digest_parts(parts)
        try:
            execute("BEGIN IMMEDIATE")
            try:
                for name in sorted(digests.keys() | self._digests.keys()):
                    if digests.get(name) != self._digests.get(name):
                        self._write_part(name, parts.get(name))
                for recipient in confirmed:
                    execute("UPDATE link SET unconfirmed = 0 WHERE peer = ?", (recipient,))
                for outgoing in sent:
                    entry = (outgoing.recipient, outgoing.sequence)
                    if not outgoing.parcel:
                        execute(_RESERVE, entry)
                    elif execute(_SEND, (*entry, outgoing.parcel)).rowcount != 1:
                        raise sqlite3.IntegrityError(f"a share to {outgoing.recipient} is still unconfirmed")
                if received is not None:
                    sender, newest = received
                    execute(_RECEIVE, (sender, newest.incarnation, newest.sequence, newest.refusal))
                execute("COMMIT")
                self._digests = digests
            except BaseException:
                if self._connection.in_transaction:
                    execute("ROLLBACK")
                raise
        except sqlite3.DatabaseError as error:
            raise DataError(
                f"cannot write {self._path} ({error}); free up disk space and start the agent again"
            ) from error

    def close(self) -> None:
        """Close the database connection."""
        self._connection.close()

    def _decode(self, state: bytes) -> Any:
        try:
            return self._codec.decode(state)
        except ModelSizeMismatch:
            raise
        except (DecodeError, ValueError, TypeError) as error:
            if self._plugin is None:
                raise
            raise self._plugin.error(
                f"its learner cannot restore the state in {self._path}: {error}",
                "restore the previous settings under [data] and [learner], or repair the package, whose "
                f"initial_state() must give each array its final shape; otherwise, {_START_AGAIN}",
            ) from error

    def _encode_parts(self, state: Any) -> Mapping[str, bytes]:
        return (
            self._codec.encode_parts(state) if isinstance(self._codec, PartsCodec) else {"": self._codec.encode(state)}
        )

    def _write_part(self, name: str, value: bytes | None) -> None:
        """Write a part of the state, or delete it; the nameless part always exists."""
        if not name:
            self._connection.execute("UPDATE learner SET state = ?", (value,))
        elif value is None:
            self._connection.execute("DELETE FROM part WHERE name = ?", (name,))
        else:
            self._connection.execute(
                "INSERT INTO part VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value)
            )

    def _begin_task_if_newer(self, learner: Learner[Any], release_count: int, epoch: int) -> None:
        """Start a new task if `epoch` is newer than the stored one, and drop the old task's messages."""
        execute = self._connection.execute
        if execute("SELECT epoch FROM life").fetchone()[0] >= epoch:
            return
        state = self._codec.encode(learner.without_state(release_count) if release_count else learner.initial_state())
        execute("BEGIN IMMEDIATE")
        execute("UPDATE link SET sequence = 0, parcel = x'', unconfirmed = 0")
        execute("DELETE FROM part")
        execute("UPDATE learner SET state = ?", (state,))
        execute("UPDATE life SET incarnation = incarnation + 1, epoch = ?", (epoch,))
        execute("COMMIT")
        self.incarnation += 1

    def _create_database(self, incarnation: int, state: Any, epoch: int) -> None:
        draft = self._path.with_name("state.db.new")
        draft.unlink(missing_ok=True)
        encoded = self._codec.encode(state)
        connection = sqlite3.connect(draft, isolation_level=None)
        SCHEMA.create(connection, PAGE_BYTES if len(encoded) < _LARGE_STATE else _LARGE_PAGE_BYTES)
        connection.execute("INSERT INTO life VALUES (?, ?)", (incarnation, epoch))
        connection.execute("INSERT INTO learner VALUES (1, ?)", (encoded,))
        connection.close()
        draft.chmod(0o600)
        rename(draft, self._path)

    def _open_database(self) -> int:
        execute = self._connection.execute
        SCHEMA.version(self._connection, self._path)
        use_log(self._connection)
        if (verdict := execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise ValueError(verdict)
        SCHEMA.upgrade(self._connection, self._path)
        if (row := execute("SELECT incarnation FROM life").fetchone()) is None:
            raise ValueError("no incarnation is recorded")
        return int(row[0])

    def _unusable_error(self, error: Exception) -> DataError:
        if is_disk_error(error):
            return DataError(f"cannot use {self._path} ({error}); free up disk space and check the file's permissions")
        return DataError(f"{self._path}: the agent's state is corrupt ({error}): {_START_AGAIN}")


def read_parts(connection: sqlite3.Connection) -> dict[str, bytes]:
    """Return the parts of the state in the last commit, the nameless one first; together, they are the encoded state.

    Raises:
        ValueError: if there is no state.
    """
    row = connection.execute("SELECT state FROM learner").fetchone()
    if row is None or not isinstance(row[0], bytes):
        raise ValueError("no learner state is stored")
    return {"": row[0], **dict(connection.execute("SELECT name, value FROM part ORDER BY name").fetchall())}


def _digest_parts(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: hashlib.blake2b(value, digest_size=16).digest() for name, value in parts.items()}


def _next_incarnation(counter: Path, release_count: int) -> int:
    """Return 1 for a device that has never run, otherwise a number greater than any incarnation used before."""
    if (last_incarnation := _read_counter(counter)) is not None:
        return last_incarnation + 1
    return 1 if release_count == 0 else int(time.time())


def _read_counter(counter: Path) -> int | None:
    """Return the last number written, or None if there is none."""
    try:
        return int(counter.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataError(
            f"{counter} is corrupt; delete it and start the agent again, which then recreates it and keeps state.db"
        ) from error


def _write_counter(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    draft.touch(0o600)
    draft.write_text(text)
    rename(draft, path)
