"""Worker processes: they end with the command that started them, also after kill -9."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import until

pytestmark = pytest.mark.process

SWEEP = ("run", "clipd2p", "--set", "cycles=400", "--set", "seed=0,1,2,3", "--set", "epsilon=1,2")


def test_no_worker_outlives_a_killed_sweep(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sottovoce", *SWEEP]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as sweep:
        workers = until(lambda: children(sweep.pid), "there are workers")
        sweep.kill()
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), "they have ended")


def children(process: int) -> list[int]:
    """Return the ids of the processes that it has started."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
