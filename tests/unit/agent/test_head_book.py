"""Book of heads: each device's highest head, durable, bounded, and never a head that contradicts its predecessor."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sottovoce.agent import head_book
from sottovoce.agent.head_book import HeadBook, continues
from sottovoce.errors import DataError
from sottovoce.identity import Identity, create_fleet, enrol

from tests.support.heads import make_head


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    directory = tmp_path_factory.mktemp("fleet")
    fleet = create_fleet(directory / "authority", "fleet")
    return [enrol(fleet, directory / str(i)) for i in range(5)]


def test_the_highest_head_of_each_device_survives_a_restart(devices: list[Identity], tmp_path: Path) -> None:
    one, other = devices[:2]
    book = HeadBook(tmp_path / "heads.db")
    assert book.creation_reason == "there was no ledger head database"
    for number in (1, 2, 5):
        assert book.store_head(make_head(one, number), ()).fits
    assert book.store_head(make_head(other, 3), ()).known is None
    book.close()
    reopened = HeadBook(tmp_path / "heads.db")
    assert reopened.creation_reason is None
    assert (reopened.known_head(one.node_id), reopened.known_head(other.node_id)) == (
        make_head(one, 5),
        make_head(other, 3),
    )
    assert reopened.known_head(devices[2].node_id) is None
    reopened.close()
    assert (tmp_path / "heads.db").stat().st_mode & 0o077 == 0


def test_a_device_s_own_head_does_not_wait_for_the_disk_but_others_do(
    devices: list[Identity], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = devices[:2]
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*where: Any, **how: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*where, **how)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    book = HeadBook(tmp_path / "heads.db")
    assert book.store_own_head(make_head(own, 1)).fits
    assert not book.store_own_head(make_head(own, 0)).fits
    book.store_head(make_head(other, 3), ())
    book.close()
    begun = [index for index, said in enumerate(statements) if said == "BEGIN IMMEDIATE"]
    waits = [[said for said in statements[:index] if said.startswith("PRAGMA synchronous")][-1] for index in begun]
    assert [wait.rpartition(" ")[2] for wait in waits[-2:]] == ["NORMAL", "FULL"]
    reopened = HeadBook(tmp_path / "heads.db")
    assert (reopened.known_head(own.node_id), reopened.known_head(other.node_id)) == (
        make_head(own, 1),
        make_head(other, 3),
    )
    reopened.close()


def test_a_contradicting_head_is_not_stored_and_the_known_head_is_returned(
    devices: list[Identity], tmp_path: Path
) -> None:
    one, book = devices[0], HeadBook(tmp_path / "heads.db")
    book.store_head(make_head(one, 5), ())
    for strange in (
        make_head(one, 4),
        make_head(one, 5, "two"),
        make_head(one, 6, released=4),
        make_head(one, 5, released=4),
    ):
        taken = book.store_head(strange, ())
        assert (taken.known, taken.fits) == (make_head(one, 5), False)
    assert book.known_head(one.node_id) == make_head(one, 5)
    assert book.store_head(make_head(one, 6, released=5), ()).fits
    assert book.store_head(make_head(one, 6, released=5, life=2), ()).fits, "the same after a restart"
    book.close()


def test_heads_from_one_ledger_continue_one_another(devices: list[Identity]) -> None:
    one = devices[0]
    assert continues(make_head(one, 5, life=1), make_head(one, 5, life=2))
    assert continues(make_head(one, 6, "two"), make_head(one, 5, "one")), (
        "only the device itself can tell the pasts apart"
    )
    assert not continues(make_head(one, 5, "two"), make_head(one, 5, "one"))


def test_the_oldest_head_is_evicted_but_never_a_peer_s(
    devices: list[Identity], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_book, "CAPACITY", 3)
    book = HeadBook(tmp_path / "heads.db")
    for device in devices[:3]:
        book.store_head(make_head(device, 1), ())
    book.store_head(make_head(devices[1], 2), ())  # heard again
    peers = {devices[0].node_id}
    book.store_head(make_head(devices[3], 1), peers)
    assert book.known_head(devices[2].node_id) is None
    book.store_head(make_head(devices[4], 1), peers)
    stored = [device for device in devices if book.known_head(device.node_id) is not None]
    assert stored == [devices[0], devices[3], devices[4]]
    book.close()


def test_a_known_head_is_not_written_again(devices: list[Identity], tmp_path: Path) -> None:
    book, wal = HeadBook(tmp_path / "heads.db"), tmp_path / "heads.db-wal"
    book.store_head(make_head(devices[0], 1), ())
    before = wal.stat().st_size
    for _ in range(10):
        assert book.store_head(make_head(devices[0], 1), ()).fits
    assert wal.stat().st_size == before
    book.close()


@pytest.mark.parametrize("content", [b"", b"rubbish" * 1000])
def test_a_corrupt_book_is_restarted_and_reported(devices: list[Identity], tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "heads.db"
    path.write_bytes(content)
    book = HeadBook(path)
    assert book.creation_reason is not None
    assert book.creation_reason.startswith("the database was corrupt (")
    assert book.store_head(make_head(devices[0], 1), ()).fits
    book.close()


def test_a_book_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"heads\.db: cannot use the stored ledger heads"):
        HeadBook(tmp_path / "nowhere" / "heads.db")


def test_a_book_that_cannot_be_written_is_named_and_unchanged(devices: list[Identity], tmp_path: Path) -> None:
    book = HeadBook(tmp_path / "heads.db")
    book.store_head(make_head(devices[0], 1), ())
    book.close()
    for act in (lambda: book.store_head(make_head(devices[0], 2), ()), lambda: book.known_head(devices[0].node_id)):
        with pytest.raises(DataError, match="cannot use"):
            act()
