"""Bytes that a ledger writes: counted frame by frame, even when SQLite restarts its log."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.storage.disk_writes import DiskWriteCounter

PAGE, FRAME = 4096, 24


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.db"


@pytest.fixture
def database(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("CREATE TABLE t (value BLOB)")
        yield connection


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def test_every_frame_is_counted_even_when_the_log_restarts(path: Path, database: sqlite3.Connection) -> None:
    database.execute("PRAGMA wal_checkpoint(RESTART)")
    wear, frames, sizes = DiskWriteCounter(log_of(path)), 0, set()
    for count in (40, 30, 45):
        for _ in range(count):
            database.execute("INSERT INTO t VALUES (randomblob(3000))")
            wear.count()
        frames += database.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[1]
        sizes.add(log_of(path).stat().st_size)
        assert wear.bytes_today == frames * (2 * PAGE + FRAME)
    assert len(sizes) < 3, "the log is overwritten, and its size reveals nothing"


def test_earlier_writes_are_not_counted(path: Path, database: sqlite3.Connection) -> None:
    wear = DiskWriteCounter(log_of(path))
    wear.count()
    assert wear.bytes_today == 0


def test_a_new_day_begins_with_zero(path: Path, database: sqlite3.Connection) -> None:
    now = [86_400.0 * 1000 - 1]
    wear = DiskWriteCounter(log_of(path), lambda: now[0])
    database.execute("INSERT INTO t VALUES (1)")
    wear.count()
    assert wear.bytes_today > 0
    now[0] += 2
    assert wear.bytes_today == 0
    database.execute("INSERT INTO t VALUES (1)")
    wear.count()
    assert 0 < wear.bytes_today <= 3 * (2 * PAGE + FRAME)


def test_a_missing_or_truncated_log_is_counted_from_its_beginning(path: Path, database: sqlite3.Connection) -> None:
    wear = DiskWriteCounter(log_of(path))
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    wear.count()
    database.execute("INSERT INTO t VALUES (1)")
    wear.count()
    assert 0 < wear.bytes_today <= 3 * (2 * PAGE + FRAME)
    database.close()
    wear.count()
    assert not log_of(path).exists()


def test_a_ledger_reports_its_bytes_since_it_was_opened(tmp_path: Path) -> None:
    budget = Budget(2.0, 1e-5, "record", "add-remove")
    Ledger.create(tmp_path / "ledger.db", "a" * 32, budget)
    with closing(Ledger.open(tmp_path / "ledger.db", "a" * 32, budget)) as ledger:
        before = ledger.spending()
        assert before.written_today <= 3 * (2 * PAGE + FRAME), "at most its mode"
