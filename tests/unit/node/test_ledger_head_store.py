"""Store of ledger heads: durable, bounded, and limited to heads that are consistent with the last known one."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sottovoce.errors import DataError
from sottovoce.fleet import Identity
from sottovoce.node.gossip import ledger_head_store
from sottovoce.node.gossip.ledger_head_store import LedgerHeadStore, is_consistent
from sottovoce_operator.fleet import create_fleet, enrol

from tests.support.heads import make_head


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    directory = tmp_path_factory.mktemp("fleet")
    fleet = create_fleet(directory / "authority", "fleet")
    return [enrol(fleet, directory / str(i)) for i in range(5)]


def test_restart_preserves_latest_head_of_each_device(devices: list[Identity], tmp_path: Path) -> None:
    device, other = devices[:2]
    store = LedgerHeadStore(tmp_path / "heads.db")
    assert store.creation_reason == "there was no ledger head database"
    for number in (1, 2, 5):
        assert store.store_head(make_head(device, number), ()).is_consistent
    assert store.store_head(make_head(other, 3), ()).known is None
    store.close()
    reopened = LedgerHeadStore(tmp_path / "heads.db")
    assert reopened.creation_reason is None
    assert (reopened.get_head(device.node_id), reopened.get_head(other.node_id)) == (
        make_head(device, 5),
        make_head(other, 3),
    )
    assert reopened.get_head(devices[2].node_id) is None
    reopened.close()
    assert (tmp_path / "heads.db").stat().st_mode & 0o077 == 0


def test_first_heads_of_a_life_are_written_at_once_and_later_ones_together(
    devices: list[Identity], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other, third = devices[:3]
    statements: list[str] = []
    connect = sqlite3.connect

    def connect_with_trace(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)
        connection.set_trace_callback(statements.append)
        return connection

    def commits() -> list[str]:
        """Return whether each commit since the last call waited for the disk."""
        syncs = [line.rpartition(" ")[2] for line in statements if line.startswith("PRAGMA synchronous")]
        statements.clear()
        return syncs

    monkeypatch.setattr(sqlite3, "connect", connect_with_trace)
    store = LedgerHeadStore(tmp_path / "heads.db")
    commits()
    assert store.store_own_head(make_head(own, 1)).is_consistent
    assert not store.store_own_head(make_head(own, 0)).is_consistent
    assert commits() == ["NORMAL"]
    for device in (other, third):
        store.store_head(make_head(device, 3), ())
    assert commits() == ["FULL", "FULL"]
    for charges in (4, 5, 6):
        store.store_own_head(make_head(own, charges))
        for device in (other, third):
            assert store.store_head(make_head(device, charges), ()).known == make_head(device, charges - 1)
    assert commits() == []
    crashed = LedgerHeadStore(tmp_path / "heads.db")
    assert [crashed.get_head(device.node_id) for device in (own, other)] == [make_head(own, 1), make_head(other, 3)]
    crashed.close()
    commits()
    store.write()
    store.write()
    assert commits() == ["NORMAL"]
    store.store_head(make_head(other, 7), ())
    store.store_head(make_head(third, 6, life=2), ())
    assert commits() == ["FULL"], "the head in memory is written along"
    crashed = LedgerHeadStore(tmp_path / "heads.db")
    heads = [make_head(own, 6), make_head(other, 7), make_head(third, 6, life=2)]
    assert [crashed.get_head(device.node_id) for device in (own, other, third)] == heads
    crashed.close()
    store.store_head(make_head(other, 8), ())
    store.close()
    reopened = LedgerHeadStore(tmp_path / "heads.db")
    assert reopened.get_head(other.node_id) == make_head(other, 8)
    reopened.close()


def test_inconsistent_head_is_rejected_and_known_head_returned(devices: list[Identity], tmp_path: Path) -> None:
    device, store = devices[0], LedgerHeadStore(tmp_path / "heads.db")
    store.store_head(make_head(device, 5), ())
    for inconsistent_head in (
        make_head(device, 4),
        make_head(device, 5, "two"),
        make_head(device, 6, released=4),
        make_head(device, 5, released=4),
    ):
        outcome = store.store_head(inconsistent_head, ())
        assert (outcome.known, outcome.is_consistent) == (make_head(device, 5), False)
    assert store.get_head(device.node_id) == make_head(device, 5)
    assert store.store_head(make_head(device, 6, released=5), ()).is_consistent
    assert store.store_head(make_head(device, 6, released=5, life=2), ()).is_consistent, (
        "a head remains consistent after a restart"
    )
    store.close()


def test_heads_from_one_ledger_are_consistent(devices: list[Identity]) -> None:
    device = devices[0]
    assert is_consistent(make_head(device, 5, life=1), make_head(device, 5, life=2))
    assert is_consistent(make_head(device, 6, "two"), make_head(device, 5, "one")), (
        "only the device itself can tell the histories apart"
    )
    assert not is_consistent(make_head(device, 5, "two"), make_head(device, 5, "one"))


def test_oldest_head_is_evicted_unless_protected(
    devices: list[Identity], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_head_store, "MAX_HEADS", 3)
    store = LedgerHeadStore(tmp_path / "heads.db")
    for device in devices[:3]:
        store.store_head(make_head(device, 1), ())
    store.store_head(make_head(devices[1], 2), ())  # reported again
    peers = {devices[0].node_id}
    store.store_head(make_head(devices[3], 1), peers)
    assert store.get_head(devices[2].node_id) is None
    store.store_head(make_head(devices[4], 1), peers)
    stored = [device for device in devices if store.get_head(device.node_id) is not None]
    assert stored == [devices[0], devices[3], devices[4]]
    store.close()


def test_known_head_is_not_rewritten(devices: list[Identity], tmp_path: Path) -> None:
    store, wal = LedgerHeadStore(tmp_path / "heads.db"), tmp_path / "heads.db-wal"
    store.store_head(make_head(devices[0], 1), ())
    before = wal.stat().st_size
    for _ in range(10):
        assert store.store_head(make_head(devices[0], 1), ()).is_consistent
    assert wal.stat().st_size == before
    store.close()


@pytest.mark.parametrize("content", [b"", b"rubbish" * 1000])
def test_corrupt_file_is_replaced_and_reported(devices: list[Identity], tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "heads.db"
    path.write_bytes(content)
    store = LedgerHeadStore(path)
    assert store.creation_reason is not None
    assert store.creation_reason.startswith("the database was corrupt (")
    assert store.store_head(make_head(devices[0], 1), ()).is_consistent
    store.close()


def test_creation_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"heads\.db"):
        LedgerHeadStore(tmp_path / "nowhere" / "heads.db")


def test_write_error_names_the_file(devices: list[Identity], tmp_path: Path) -> None:
    store = LedgerHeadStore(tmp_path / "heads.db")
    store.store_head(make_head(devices[0], 1), ())
    store.close()
    for act in (lambda: store.store_head(make_head(devices[1], 2), ()), lambda: store.get_head(devices[2].node_id)):
        with pytest.raises(DataError, match="cannot use"):
            act()


def test_a_head_in_memory_is_the_one_in_the_file(
    devices: list[Identity], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_head_store, "_MAX_RECENT_HEADS", 2)
    store = LedgerHeadStore(tmp_path / "heads.db")
    first, second, third = devices[:3]
    for device in (first, second, third):
        store.store_head(make_head(device, 2), ())
    assert not store.store_head(make_head(third, 1), ()).is_consistent
    assert [store.recent_head(device.node_id) for device in devices[:3]] == [
        None,
        make_head(second, 2),
        make_head(third, 2),
    ]
    assert store.get_head(first.node_id) == make_head(first, 2)
    assert store.recent_head(first.node_id) == make_head(first, 2)
    store.close()
    reopened = LedgerHeadStore(tmp_path / "heads.db")
    assert [reopened.get_head(device.node_id) for device in devices[:3]] == [
        make_head(device, 2) for device in devices[:3]
    ]
    reopened.close()


def test_the_last_lives_of_a_device_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_head_store, "_MAX_LIVES", 3)
    lives = [bytes([number]) * 16 for number in range(6)]
    for number, life in enumerate(lives):
        store = LedgerHeadStore(tmp_path / "heads.db")
        assert store.begin_life(life) == frozenset(lives[max(0, number - 3) : number])
        store.close()
