"""Record book: it survives restarts, and a corrupt book is replaced with an empty one."""

import logging
import os
from pathlib import Path

import numpy as np
import pytest
from sottovoce.errors import DataError
from sottovoce.learning.learners import Perturbation, PublishedRecord
from sottovoce.node.record_book import RecordStore, read

HOW = Perturbation("privunit", 3, 2, 1.5)


def record(owner: str, slot: int = 0) -> PublishedRecord:
    return PublishedRecord(owner, slot, HOW, np.array([5, -7, 2**50]), b"certificate", bytes(64))


def get_comparable_fields(records: tuple[PublishedRecord, ...]) -> list[tuple[object, ...]]:
    return sorted(
        (*item.key, item.perturbation, item.values.tolist(), item.credential, item.signature) for item in records
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.db"


def test_stored_records_are_there_after_a_restart(path: Path) -> None:
    book = RecordStore(path)
    assert book.load() == ()
    book.update([record("a"), record("a", 1), record("b")], [])
    book.update([record("c")], [record("a", 1)])
    book.close()
    reopened = RecordStore(path)
    expected = get_comparable_fields((record("a"), record("b"), record("c")))
    assert get_comparable_fields(reopened.load()) == expected
    assert get_comparable_fields(read(path)) == expected, "even while it is open"
    reopened.close()


def test_only_the_owner_can_read_the_book(path: Path) -> None:
    RecordStore(path).close()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [b"not a database at all" * 300, b""])
def test_a_corrupt_book_is_restarted_and_reported(path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    book = RecordStore(path)
    book.update([record("a")], [])
    book.close()
    path.write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        book = RecordStore(path)
        assert book.load() == ()
    assert "records-lost" in caplog.text
    book.update([record("b")], [])
    assert get_comparable_fields(book.load()) == get_comparable_fields((record("b"),))
    book.close()


def test_a_record_corrupted_on_disk_costs_only_the_book(path: Path) -> None:
    book = RecordStore(path)
    book.update([record("a")], [])
    book._connection.execute("UPDATE record SET published = x'ff00ff'")
    assert book.load() == ()
    book.update([record("b")], [])
    assert get_comparable_fields(book.load()) == get_comparable_fields((record("b"),))
    book.close()


def test_reading_a_missing_or_invalid_book_is_one_clear_error(path: Path) -> None:
    with pytest.raises(DataError, match=r"records\.db"):
        read(path)
    path.write_bytes(os.urandom(5000))
    with pytest.raises(DataError, match="corrupt"):
        read(path)


def test_a_failing_disk_leaves_the_book_unchanged(path: Path) -> None:
    book = RecordStore(path)
    book.update([record("a")], [])
    book._connection.execute("PRAGMA query_only = 1")
    with pytest.raises(DataError, match="cannot write"):
        book.update([record("b")], [record("a")])
    book._connection.execute("PRAGMA query_only = 0")
    assert get_comparable_fields(book.load()) == get_comparable_fields((record("a"),))
    book.close()
