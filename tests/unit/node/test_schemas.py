"""Databases of every version: an older one is migrated completely, a newer one is named and left unchanged."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import sottovoce_bootstrap.address_book
from sottovoce.algorithms.push_sum.codec import PushSumCodec
from sottovoce.data.feed import store as feed_store
from sottovoce.errors import DataError
from sottovoce.node import record_book, sqlite_store
from sottovoce.node.gossip import ledger_head_store
from sottovoce.node.links import NewestMessage, Outgoing
from sottovoce.storage.schema import Schema
from sottovoce_home.store import WindowStore

from tests.support.sources import sources
from tests.unit.learners.support import push_sum

LEARNER = push_sum("a", "b", size=3)


def _state(path: Path) -> sqlite_store.SqliteStore:
    return sqlite_store.SqliteStore(path.parent, LEARNER, PushSumCodec(LEARNER), 0)


class Closed:
    """Open a file, and close it again."""

    def __init__(self, opened: Callable[[Path], object], name: str, module: ModuleType) -> None:
        self.name, self.module = name, module
        self._opened = opened

    def __call__(self, path: Path) -> None:
        book = self._opened(path)
        book.close()  # type: ignore[attr-defined]


KEPT = [
    Closed(_state, "state.db", sqlite_store),
    Closed(ledger_head_store.LedgerHeadStore, "heads.db", ledger_head_store),
    Closed(record_book.RecordStore, "records.db", record_book),
    Closed(lambda path: WindowStore(path, 900, 7), "windows.db", feed_store),
    Closed(
        lambda path: sottovoce_bootstrap.AddressBook(path, 0.0), "peers.db", sottovoce_bootstrap.address_book
    ),
]  # fmt: skip
each = pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.name)


def _set(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


@each
def test_a_newer_database_is_named_and_left_unchanged(tmp_path: Path, kept: Closed) -> None:
    path = tmp_path / kept.name
    kept(path)
    _set(path, 99)
    before = path.read_bytes()
    with pytest.raises(
        DataError, match=re.escape(f"{path}: a newer version of the program wrote this file (schema 99")
    ):
        kept(path)
    assert path.read_bytes() == before


@each
def test_every_past_version_is_migrated(tmp_path: Path, kept: Closed) -> None:
    path, schema = tmp_path / kept.name, kept.module.SCHEMA
    kept(path)
    present = _tables(path)
    for version in range(1, len(schema.migrations)):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as old:
            replace(schema, migrations=schema.migrations[:version]).create(old)
            schema.upgrade(old, path)
            assert sorted(old.execute("SELECT type, name, sql FROM sqlite_master").fetchall()) == present
            assert schema.version(old, path) == len(schema.migrations)


def _tables(path: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return sorted(connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall())


def test_version_0_1_s_state_continues(tmp_path: Path) -> None:
    state = replace(LEARNER.initial_state(), cycle=7, step=3)
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as old:
        replace(sqlite_store.SCHEMA, migrations=sqlite_store.SCHEMA.migrations[:1]).create(old)
        old.execute("INSERT INTO life VALUES (4)")
        old.execute("INSERT INTO learner VALUES (1, ?)", (PushSumCodec(LEARNER).encode(state),))
        old.execute("INSERT INTO outbox VALUES ('a', 9, x'01')")
        old.execute("INSERT INTO sequence VALUES ('a', 9)")
        old.execute("INSERT INTO seen VALUES ('b', 2, 5)")
    for _ in range(2):
        store = _state(tmp_path / "state.db")
        saved = store.load()
        store.close()
        assert (store.incarnation, saved.state.cycle, saved.state.step) == (4, 7, 3)
        assert saved.outbox == [Outgoing("a", 9, b"\1")]
        assert (saved.sequences, saved.seen) == ({"a": 9}, {"b": NewestMessage(2, 5)})


def test_a_failing_migration_leaves_the_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    schema = Schema(7, "a test", ("CREATE TABLE one (x);", "CREATE TABLE two (x); INSERT INTO nowhere VALUES (1);"), "")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        replace(schema, migrations=schema.migrations[:1]).create(connection)
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            schema.upgrade(connection, path)
        assert schema.version(connection, path) == 1
        assert not connection.in_transaction
    assert [name for _, name, _ in _tables(path)] == ["one"]


def test_every_database_class_is_covered() -> None:
    keeping = {path for path in sources() if re.search(r"^SCHEMA = Schema\(", path.read_text(), re.MULTILINE)}
    assert keeping == {Path(str(kept.module.__file__)).resolve() for kept in KEPT}
    versioned = {path.name for path in sources() if "user_version" in path.read_text()}
    assert versioned == {"schema.py", "ledger_file.py"}
