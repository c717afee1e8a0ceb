"""Ledger snapshot: a ledger can be read while its agent runs, and after the agent was killed."""

import shutil
from pathlib import Path

import pytest
from sottovoce.errors import LedgerError
from sottovoce.node.state_directory import snapshot
from sottovoce.privacy.accounting.events import PureRelease
from sottovoce.privacy.vault import Budget, Ledger

_BUDGET = Budget(2.0, 1e-5, "record", "add-remove")
_EVENT = PureRelease("laplace", 1, 4, 4, 1000, 0.004)


def _files(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def test_content_of_the_write_ahead_log_is_read_and_no_file_is_left(tmp_path: Path) -> None:
    path, killed = tmp_path / "ledger.db", tmp_path / "killed"
    killed.mkdir()
    Ledger.create(path, "a" * 32, _BUDGET)
    working = Ledger.open(path, "a" * 32, _BUDGET)
    try:
        assert working.charge(b"q", _EVENT)
        with snapshot(path) as (ledger, location):
            assert (ledger.spending().charges, location) == (1, path)
        for name in ("ledger.db", "ledger.db-wal"):  # as after a power cut, which leaves no index
            shutil.copy(tmp_path / name, killed / name)
    finally:
        working.close()
    before = _files(killed)
    with snapshot(killed / "ledger.db") as (ledger, location):
        assert ledger.spending().charges == 1
    assert not location.exists()
    assert _files(killed) == before


def test_an_error_names_the_ledger_and_not_its_copy(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"no database")
    for _ in range(2):
        with pytest.raises(LedgerError, match=str(path)), snapshot(path):
            raise AssertionError("it is damaged")
        path.unlink(missing_ok=True)
