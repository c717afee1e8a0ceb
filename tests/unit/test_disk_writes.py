"""Bytes that a ledger writes: counted frame by frame, even when SQLite restarts its log."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sottovoce.privacy.accounting.events import RecordReleased
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.storage.disk_writes import DailyTotal, DiskWriteCounter

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


def counter(path: Path, clock: Callable[[], float] = time.time) -> DiskWriteCounter:
    return DiskWriteCounter(log_of(path), DailyTotal(None, 2**18, clock=clock))


def test_every_frame_is_counted_even_when_the_log_restarts(path: Path, database: sqlite3.Connection) -> None:
    database.execute("PRAGMA wal_checkpoint(RESTART)")
    wear, frames, sizes = counter(path), 0, set()
    for count in (40, 30, 45):
        for _ in range(count):
            database.execute("INSERT INTO t VALUES (randomblob(3000))")
            wear.count()
        frames += database.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[1]
        sizes.add(log_of(path).stat().st_size)
        assert wear.bytes_today == frames * (2 * PAGE + FRAME)
    assert len(sizes) < 3, "the log is overwritten, and its size reveals nothing"


def test_earlier_writes_are_not_counted(path: Path, database: sqlite3.Connection) -> None:
    wear = counter(path)
    wear.count()
    assert wear.bytes_today == 0


def test_a_new_day_begins_with_zero(path: Path, database: sqlite3.Connection) -> None:
    now = [86_400.0 * 1000 - 1]
    wear = counter(path, lambda: now[0])
    database.execute("INSERT INTO t VALUES (1)")
    wear.count()
    assert wear.bytes_today > 0
    now[0] += 2
    assert wear.bytes_today == 0
    database.execute("INSERT INTO t VALUES (1)")
    wear.count()
    assert 0 < wear.bytes_today <= 3 * (2 * PAGE + FRAME)


def test_a_missing_or_truncated_log_is_counted_from_its_beginning(path: Path, database: sqlite3.Connection) -> None:
    wear = counter(path)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    wear.count()
    database.execute("INSERT INTO t VALUES (1)")
    wear.count()
    assert 0 < wear.bytes_today <= 3 * (2 * PAGE + FRAME)
    database.close()
    wear.count()
    assert not log_of(path).exists()


def test_a_ledger_reports_the_day_s_bytes_even_after_it_was_opened_again(tmp_path: Path) -> None:
    budget = Budget(2.0, 1e-5, "record", "add-remove")
    Ledger.create(tmp_path / "ledger.db", "a" * 32, budget)
    with closing(Ledger.open(tmp_path / "ledger.db", "a" * 32, budget)) as ledger:
        before = ledger.spending()
        assert before.written_today <= 3 * (2 * PAGE + FRAME), "at most its mode"
        assert ledger.charge(bytes(32), RecordReleased(0, "laplace", 2, 2, 1.0))
        written = ledger.spending().written_today
    with closing(Ledger.open(tmp_path / "ledger.db", "a" * 32, budget)) as reopened:
        assert reopened.spending().written_today >= written > before.written_today
