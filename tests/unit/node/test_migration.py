"""Migration: a moved device continues only in its new location, even after a power failure during the move."""

import os
import signal
import sqlite3
from pathlib import Path

import pytest
from sottovoce.errors import LedgerError
from sottovoce.node import state_directory as migration
from sottovoce.node.state_directory import move
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.vault import Budget, Ledger, Witness
from sottovoce.reports.account import audit_account, build_account
from sottovoce.storage.durable import rename

BUDGET, EVENT = Budget(2.0, 1e-5, "record", "add-remove"), GaussianSum(10**6, 20_000)
OWNER = "meter-17"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    created = tmp_path / "state"
    (created / "identity").mkdir(parents=True)
    (created / "identity" / "device.key").write_text("secret")
    (created / "agent.sock").write_text("")
    Ledger.create(created / "ledger.db", OWNER, BUDGET)
    ledger = Ledger.open(created / "ledger.db", OWNER, BUDGET)
    ledger.charge(b"1" * 32, EVENT)
    ledger.witnesses.appoint((Witness("a", ("a:1",)),))
    ledger.close()
    return created


def usable(path: Path) -> bool:
    """Check whether a device could charge in this location."""
    try:
        Ledger.open(path, OWNER, BUDGET).close()
    except LedgerError:
        return False
    return True


def test_moved_device_continues_only_in_its_new_location(state: Path, tmp_path: Path) -> None:
    before = Ledger.read(state / "ledger.db")
    spent, key = before.spending(), before.numbers.key
    before.close()
    target = tmp_path / "new"
    assert move(state, target) == target / "ledger.db"
    with pytest.raises(LedgerError, match=r"\bnew\b.*closed"):
        Ledger.open(state / "ledger.db", OWNER, BUDGET)
    there = Ledger.open(target / "ledger.db", OWNER, BUDGET)
    assert (there.spending().epsilon, there.numbers.key) == (spent.epsilon, key)
    assert there.spending().charges == spent.charges + 1, "its head is newer than any copy's"
    assert there.witnesses.load_newest() == (Witness("a", ("a:1",)),)
    assert there.charge(b"2" * 32, EVENT)
    assert audit_account(build_account(there))[0].epsilon == there.spending().epsilon
    there.close()
    assert sorted(path.name for path in target.iterdir() if not path.name.startswith("ledger.db")) == ["identity"]
    assert (target / "identity" / "device.key").read_text() == "secret"


@pytest.mark.parametrize("step", ["_copy", "_begin_new_ledger", "rename 1", "rename 2", "after end"])
def test_power_may_fail_at_any_step(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """The locations are never both usable, and repeating the command continues the move."""
    target, calls = tmp_path / "new", []

    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    def renamed(draft: Path, path: Path) -> None:
        calls.append(path)
        if f"rename {len(calls)}" == step:
            raise KeyboardInterrupt
        rename(draft, path)

    with monkeypatch.context() as patch:
        patch.setattr(migration, "rename", renamed)
        if step.startswith("_"):
            patch.setattr(migration, step, fails)
        if step == "after end":
            patch.setattr(migration, "_finish_move", fails)
        with pytest.raises(KeyboardInterrupt):
            move(state, target)
    assert not (usable(state / "ledger.db") and usable(target / "ledger.db"))
    assert move(state, target) == target / "ledger.db"
    assert usable(target / "ledger.db")
    assert not usable(state / "ledger.db")


def test_a_device_moves_once(state: Path, tmp_path: Path) -> None:
    move(state, tmp_path / "new")
    for again in ("new", "other"):
        with pytest.raises(LedgerError, match=r"moved to .*new"):
            move(state, tmp_path / again)
    assert move(tmp_path / "new", tmp_path / "third") == tmp_path / "third" / "ledger.db"


def test_a_running_device_is_not_moved(state: Path, tmp_path: Path) -> None:
    ledger = Ledger.open(state / "ledger.db", OWNER, BUDGET)
    with pytest.raises(LedgerError, match=r"agent.*ledger.*stop"):
        move(state, tmp_path / "new")
    ledger.close()
    assert usable(state / "ledger.db")


def test_nothing_is_overwritten(state: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    with pytest.raises(LedgerError, match="already exists"):
        move(state, tmp_path / "new")
    assert usable(state / "ledger.db")


def test_a_full_disk_leaves_the_device_in_its_old_location(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(migration, "_copy", full)
    with pytest.raises(LedgerError, match="disk"):
        move(state, tmp_path / "new")
    assert usable(state / "ledger.db")


@pytest.mark.process
def test_a_killed_device_s_logs_move_with_their_databases(state: Path, tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        store = sqlite3.connect(state / "state.db", isolation_level=None)
        store.execute("PRAGMA journal_mode = WAL")
        store.execute("CREATE TABLE kept (words TEXT)")
        store.execute("INSERT INTO kept VALUES ('committed')")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    move(state, tmp_path / "new")
    assert sqlite3.connect(tmp_path / "new" / "state.db").execute("SELECT words FROM kept").fetchall() == [
        ("committed",)
    ]


@pytest.mark.parametrize("inside", ["sub", "..", "."])
def test_a_location_inside_the_old_one_is_refused(state: Path, inside: str) -> None:
    with pytest.raises(LedgerError, match="neither"):
        move(state, state / inside)
    assert usable(state / "ledger.db")


def test_unrelated_files_are_left_alone(state: Path, tmp_path: Path) -> None:
    (tmp_path / "new.new").mkdir()
    (tmp_path / "new.new" / "precious").write_text("kept")
    with pytest.raises(LedgerError, match="belong"):
        move(state, tmp_path / "new")
    assert (tmp_path / "new.new" / "precious").read_text() == "kept"
    assert usable(state / "ledger.db")
