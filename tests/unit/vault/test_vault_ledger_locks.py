"""SQLite's locks on an open ledger: without them, a reader beside the agent would mistake its index for an old one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.vault import Budget, Ledger

pytestmark = pytest.mark.process

# SQLite's "WAL-mode File Format": open indexes hold byte 128; a process that gets it alone rebuilds the index
_TRY = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 128)"


def test_the_index_is_locked_on_a_ledger_opened_after_a_crash(path: Path, budget: Budget, tmp_path: Path) -> None:
    before = Ledger.open(path, "meter-17", budget)
    before.charge(bytes(32), GaussianSum(100, 1000))
    (tmp_path / "crashed").mkdir()
    for file in (path, path.with_name(path.name + "-wal")):
        path = Path(shutil.copy(file, tmp_path / "crashed")).with_name("ledger.db")
    before.close()
    ledger = Ledger.open(path, "meter-17", budget)
    assert ledger.spending().charges == 1
    index = path.with_name(path.name + "-shm")
    tried = subprocess.run([sys.executable, "-c", _TRY, index], capture_output=True, text=True, check=False)
    assert tried.returncode != 0
    assert "Error" in tried.stderr
    ledger.close()
