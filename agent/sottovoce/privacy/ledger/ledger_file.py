"""The ledger file: its schema, its lock, and errors that name the file and suggest a remedy."""

import errno
import fcntl
import os
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

from sottovoce.errors import LedgerError, LedgerUnwritable, PrivacyError
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.accounting.units import EVERY
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.chain import release_digest
from sottovoce.storage.durable import sqlite_code

_APPLICATION_ID = 0x50FF0CE1
_SCHEMA_VERSION = 9
_VERSION_0_1 = 3  # schema of version 0.1, which numbered records by their position
KEY_BYTES = 32
_TABLES = ("budget", "secret", "keepers", "ended", "task", "period", "numbering", "enrolled", "charge", "release")
_OLD_TABLES = """
CREATE TABLE budget (owner TEXT NOT NULL, epsilon REAL, delta REAL NOT NULL, unit TEXT NOT NULL,
                     neighbouring TEXT NOT NULL, nonce BLOB NOT NULL) STRICT;
CREATE TABLE charge (number INTEGER PRIMARY KEY, query BLOB NOT NULL UNIQUE, terms TEXT NOT NULL,
                     link BLOB NOT NULL) STRICT;
CREATE TABLE release (number INTEGER PRIMARY KEY REFERENCES charge (number), exponent INTEGER NOT NULL,
                      value BLOB NOT NULL, simulated INTEGER NOT NULL, digest BLOB NOT NULL) STRICT;
"""
_NEW_TABLES = """
CREATE TABLE secret (key BLOB NOT NULL) STRICT;
CREATE TABLE file (number INTEGER PRIMARY KEY, records INTEGER NOT NULL) STRICT;
CREATE TABLE record (digest BLOB PRIMARY KEY, number INTEGER UNIQUE) STRICT, WITHOUT ROWID;
CREATE TABLE keepers (number INTEGER PRIMARY KEY, named TEXT NOT NULL) STRICT;
CREATE TABLE ended (nonce TEXT NOT NULL, target TEXT NOT NULL) STRICT;
"""
_TASK_TABLES = """
CREATE TABLE task (epoch INTEGER PRIMARY KEY, epsilon REAL, delta REAL NOT NULL, unit TEXT NOT NULL,
                   neighbouring TEXT NOT NULL, document BLOB NOT NULL) STRICT;
ALTER TABLE charge ADD COLUMN stamp TEXT NOT NULL DEFAULT '';
"""
_LASTING_TABLES = """
ALTER TABLE task ADD COLUMN period INTEGER NOT NULL DEFAULT 0;
CREATE TABLE period (number INTEGER PRIMARY KEY, opened REAL NOT NULL) STRICT;
CREATE TABLE numbering (number INTEGER PRIMARY KEY, kind TEXT NOT NULL) STRICT;
CREATE TABLE lived (number INTEGER PRIMARY KEY, seconds REAL NOT NULL) STRICT;
"""
_ENROLLED_TABLES = """
INSERT INTO numbering (kind)
    SELECT 'enrolled' WHERE EXISTS (SELECT 1 FROM file) AND NOT EXISTS (SELECT 1 FROM numbering);
DROP TABLE file;
DROP TABLE record;
CREATE TABLE enrolled (epoch INTEGER PRIMARY KEY, prepared TEXT NOT NULL, records INTEGER NOT NULL,
                       features INTEGER NOT NULL, value BLOB NOT NULL) STRICT;
"""
_LIMIT_TABLES = """
CREATE TABLE span (span TEXT PRIMARY KEY, began REAL NOT NULL, charges INTEGER NOT NULL) STRICT;
"""
# The old values are deleted first, so that the new ones take their pages: the file's size then reveals nothing about
# the length of the compressed records.
_UNCOMPRESSED_RECORDS = """
DROP TRIGGER IF EXISTS enrolled_DELETE;
CREATE TEMP TABLE uncompressed AS SELECT epoch, prepared, records, features, decompress(value) FROM enrolled;
DELETE FROM enrolled;
INSERT INTO enrolled SELECT * FROM uncompressed;
DROP TABLE uncompressed;
"""
# A task's records may be deleted once a later task has begun, because nothing reads them any more.
_DELETABLE = {("enrolled", "DELETE"): "WHEN NOT EXISTS (SELECT 1 FROM task WHERE task.epoch > OLD.epoch) "}
_TRIGGERS = "".join(
    f"CREATE TRIGGER IF NOT EXISTS {table}_{verb} BEFORE {verb} ON {table} {_DELETABLE.get((table, verb), '')}"
    "BEGIN SELECT RAISE(ABORT, 'append only'); END;\n"
    for table in _TABLES
    for verb in ("UPDATE", "DELETE")
)
_MIGRATIONS = {
    3: _NEW_TABLES,
    4: _TASK_TABLES,
    5: _LASTING_TABLES,
    6: _ENROLLED_TABLES,
    7: _LIMIT_TABLES,
    8: _UNCOMPRESSED_RECORDS,
}  # schema version: statements that upgrade it to the next version
_SCHEMA = _OLD_TABLES + "".join(_MIGRATIONS.values()) + _TRIGGERS

_LOG_HEAD, _FRAME_HEAD, _INDEX_HEAD = 32, 24, 100  # bytes

_DISK_CODES = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS}
_DESCRIPTOR_ERRORS = {errno.EMFILE, errno.ENFILE}
_ACCESS_CODES = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_BUSY_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def create_tables(connection: sqlite3.Connection, owner: str, budget: Budget, key: bytes) -> None:
    """Create the tables of a new ledger; `key` is the hash key for record numbers."""
    _prepare_migrations(connection)
    connection.executescript(
        f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {_SCHEMA_VERSION}; {_SCHEMA}"
    )
    connection.execute(
        "INSERT INTO budget VALUES (?, ?, ?, ?, ?, ?)",
        (owner, budget.epsilon, budget.delta, budget.unit, budget.neighbouring, os.urandom(16)),
    )
    connection.execute("INSERT INTO secret VALUES (?)", (key,))


def read_verified_header(connection: sqlite3.Connection) -> tuple[str, Budget, bytes]:
    """Return the owner, budget and nonce of a ledger, after verifying that the file is intact.

    The verification includes the indices, because they are used to find earlier answers.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != _APPLICATION_ID:
        raise sqlite3.DatabaseError("the file is not a Sottovoce ledger")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != _SCHEMA_VERSION:
        raise LedgerError(_version_message(version))
    try:
        verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
    except MemoryError as error:  # a corrupt file may request any amount
        raise LedgerUnwritable(
            "there is not enough memory to check the privacy ledger: nothing was released. Remedy: free some memory; "
            "if there is enough, the file is corrupt: recover it from the device's own disk, not from an older "
            "copy, or retire this identity"
        ) from error
    if verdict != "ok":
        raise sqlite3.DatabaseError(str(verdict))
    rows = connection.execute("SELECT owner, epsilon, delta, unit, neighbouring, nonce FROM budget").fetchall()
    if len(rows) != 1:
        raise sqlite3.DatabaseError("the ledger does not contain a budget")
    owner, epsilon, delta, unit, neighbouring, nonce = rows[0]
    try:
        return owner, Budget(epsilon, delta, unit, neighbouring), nonce
    except PrivacyError as error:
        raise sqlite3.DatabaseError("the ledger's budget is invalid") from error


def check_releases(connection: sqlite3.Connection) -> None:
    """Check that every release is unchanged since it was stored, and belongs to an existing charge."""
    rows = connection.execute(
        "SELECT release.number, link, exponent, value, simulated, digest FROM release LEFT JOIN charge USING (number)"
    )
    for number, link, exponent, value, simulated, digest in rows:
        if link is None or release_digest(link, exponent, value, bool(simulated)) != digest:
            raise sqlite3.DatabaseError(f"release {number} is not the one that was stored")


def upgrade(path: Path) -> None:
    """Upgrade a file from an earlier version to this schema, in one transaction; leave any other file unchanged.

    Raises:
        LedgerError: if a file from version 0.1 contains charges for single records. Such charges identify records by
            their position in the data file, so these records can no longer be identified.
    """
    with closing(connect(path, "ro")) as reader:  # leaves any other file unchanged, byte for byte
        if reader.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            return
        version = reader.execute("PRAGMA user_version").fetchone()[0]
        if version not in _MIGRATIONS:
            return
        unit = reader.execute("SELECT unit FROM budget").fetchone()[0]
        terms = [parse_event(row[0]) for row in reader.execute("SELECT DISTINCT terms FROM charge")]
        if version == _VERSION_0_1 and unit == "record" and any(event.units != EVERY for event in terms):
            raise LedgerError(
                f"{path}: this ledger was created by version 0.1 of the program and contains charges for single "
                "records, identified by their position in the file. The cost to each record is no longer known, so "
                "nothing can be released. Use version 0.1 to access earlier releases, or enrol a new device"
            )
    migrations = "".join(_MIGRATIONS[schema] for schema in range(version, _SCHEMA_VERSION))
    key = os.urandom(KEY_BYTES).hex()
    insert_secret = f"INSERT INTO secret VALUES (x'{key}');" if version == _VERSION_0_1 else ""  # noqa: S608 - hex
    with closing(connect(path, "rw")) as connection:
        _prepare_migrations(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(
            f"BEGIN IMMEDIATE; {migrations} {insert_secret} {_TRIGGERS} "
            f"PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;"
        )


def _prepare_migrations(connection: sqlite3.Connection) -> None:
    """Define the SQL function that the migrations call, and keep their temporary table of records off the disk."""
    connection.create_function("decompress", 1, zlib.decompress, deterministic=True)
    connection.execute("PRAGMA temp_store = MEMORY")


def _version_message(version: int) -> str:
    if version in _MIGRATIONS:
        origin = "version 0.1" if version == _VERSION_0_1 else "an earlier version"
        return f"this ledger is from {origin} of the program: the device's next start upgrades it without losing data"
    if version > _SCHEMA_VERSION:
        return (
            f"this ledger is from a newer version of the program (schema {version}, but this version writes schema "
            f"{_SCHEMA_VERSION}). The ledger is intact; use the newer version"
        )
    return f"this ledger is from a version of the program before 0.1 (schema {version}), which cannot be upgraded"


def acquire_lock(path: Path) -> int:
    """Lock the ledger and return the lock's descriptor.

    The lock is a separate file, because SQLite uses its own locks on the ledger file.

    Raises:
        LedgerError: if another process has locked the ledger.
    """
    resolved = path.resolve()
    lock = os.open(resolved.with_name(resolved.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise LedgerError(f"{path}: another agent is using this ledger; stop it first") from error
    return lock


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection to an existing file, for writing (`rw`) or only for reading (`ro`)."""
    quoted = str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return sqlite3.connect(
        f"file:{quoted}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=10
    )


def is_log_corrupt(path: Path) -> bool:
    """Return whether the log continues after the point where SQLite stopped reading it, which a crash cannot cause.

    A commit is on disk before the next one begins, so only the last commit can be torn. SQLite treats a broken frame in
    the middle as the end of the log. When the log restarts, its head is written first, so a crash may tear it. In
    that case, SQLite reads nothing from the log, but everything in the log is already in the database. Call this
    function while a connection is open, because opening one creates the log's index. For the formats, see
    "WAL-mode File Format" in SQLite's documentation.
    """
    resolved = path.resolve()
    log, index = (resolved.with_name(resolved.name + suffix) for suffix in ("-wal", "-shm"))
    if not (log.exists() and index.exists()):
        return False
    with log.open("rb") as file:
        head = file.read(_LOG_HEAD)
        if len(head) < _LOG_HEAD:
            return False
        page, salt = int.from_bytes(head[8:12], "big"), head[16:24]
        with index.open("rb") as index_file:
            frames_read = int.from_bytes(index_file.read(20)[16:], sys.byteorder)
        unread_commits = 0
        for number in range(frames_read, (log.stat().st_size - _LOG_HEAD) // (_FRAME_HEAD + page)):
            file.seek(_LOG_HEAD + number * (_FRAME_HEAD + page))
            frame = file.read(_FRAME_HEAD)
            unread_commits += frame[8:16] == salt and frame[4:8] != bytes(4)  # the last frame of a commit
        return unread_commits > 1 and (_has_valid_checksum(head) or not _is_checkpointed(file, resolved, page, salt))


def _has_valid_checksum(head: bytes) -> bool:
    """Return whether the checksum in a log's head is correct."""
    order: Literal["big", "little"] = "big" if head[3] & 1 else "little"
    first = second = 0
    for offset in range(0, _LOG_HEAD - 8, 8):
        first = (first + int.from_bytes(head[offset : offset + 4], order) + second) % 2**32
        second = (second + int.from_bytes(head[offset + 4 : offset + 8], order) + first) % 2**32
    return (first, second) == (int.from_bytes(head[24:28], "big"), int.from_bytes(head[28:32], "big"))


def _is_checkpointed(log: BinaryIO, ledger: Path, page: int, salt: bytes) -> bool:
    """Return whether the database contains the newest frame of each page, among the commits with this salt."""
    newest: dict[int, int] = {}
    commit: dict[int, int] = {}
    offset = _LOG_HEAD
    log.seek(offset)
    while len(frame := log.read(_FRAME_HEAD)) == _FRAME_HEAD and frame[8:16] == salt:
        commit[int.from_bytes(frame[:4], "big")] = offset + _FRAME_HEAD
        if frame[4:8] != bytes(4):
            newest.update(commit)
            commit.clear()
        offset += _FRAME_HEAD + page
        log.seek(offset)
    with ledger.open("rb") as database:
        for number, newest_offset in newest.items():
            log.seek(newest_offset)
            database.seek((number - 1) * page)
            if log.read(page) != database.read(page):
                return False
    return True


def is_log_missing(path: Path) -> bool:
    """Return whether the log was removed although its index counts charges that are not yet in the database file.

    The index contains the number of the last valid frame and the number of frames copied to the database file; see
    "WAL-Index Format" in SQLite's documentation.
    """
    resolved = path.resolve()
    log, index = (resolved.with_name(resolved.name + suffix) for suffix in ("-wal", "-shm"))
    if log.exists() or not index.exists():
        return False
    with index.open("rb") as file:
        head = file.read(_INDEX_HEAD)
    if len(head) < _INDEX_HEAD:
        return False
    frames, checkpointed = (int.from_bytes(head[offset : offset + 4], sys.byteorder) for offset in (16, 96))
    return frames > checkpointed


@contextmanager
def translate_errors(path: Path | None = None) -> Iterator[None]:
    """Translate errors from SQLite and the file system into an error that names the ledger and suggests a remedy."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError) as error:  # a corrupt name in the schema may not be valid text
        subject = f"{path}: the privacy ledger" if path else "the privacy ledger"
        raise (LedgerUnwritable if _is_disk_error(error) else LedgerError)(
            f"{subject} cannot be used ({' '.join(str(error).split())}): nothing was released. Remedy: {_remedy(error)}"
        ) from error


def _is_disk_error(error: Exception) -> bool:
    return sqlite_code(error) in _DISK_CODES or getattr(error, "errno", None) in _DISK_ERRORS


def _remedy(error: Exception) -> str:
    code = sqlite_code(error)
    if _is_disk_error(error):
        return "free up disk space, or replace the disk"
    if getattr(error, "errno", None) in _DESCRIPTOR_ERRORS:
        return "raise this process's file descriptor limit"
    if code in _ACCESS_CODES or isinstance(error, OSError):
        return "give only the agent's user write access to the ledger and its directory"
    if code in _BUSY_CODES:
        return "stop the other program that has the ledger open"
    return (
        "recover this file from the device's own disk, not from an older copy, or retire this identity; an empty "
        "ledger never replaces it"
    )


def check_log_present(path: Path | None) -> None:
    """Check that the ledger's log was not removed while it contained charges.

    Raises:
        LedgerError: if the log was removed.
    """
    if path is not None and is_log_missing(path):
        raise LedgerError(
            f"{path}: the ledger's log, {path.name}-wal, was removed while it contained charges that are stored "
            "nowhere else: nothing was released. Remedy: if an agent has the ledger open, stop the agent with SIGTERM, "
            "because it still has the log and copies it into the ledger. Otherwise, restore that exact file; without "
            "it, this identity can never release anything again, and a new device has to join"
        )
