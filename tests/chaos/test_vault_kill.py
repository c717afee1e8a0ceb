"""Vault killed two hundred times: nothing is spent twice, and no query gets two different answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.vault_driver import ENOUGH_RELEASES, ENOUGH_UNFINISHED

pytestmark = pytest.mark.process

DRIVER = Path(__file__).with_name("vault_driver.py")
SEED = 20_240_917
LIVES = 200


def test_a_vault_killed_at_any_moment_spends_nothing_twice(tmp_path: Path) -> None:
    """Run the driver in its own single-threaded process, because it forks."""
    run = subprocess.run(
        [sys.executable, DRIVER, tmp_path, str(SEED), str(LIVES)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, f"seed {SEED}: {run.stderr}"
    report = json.loads(run.stdout)
    assert report["wrong"] == [], f"seed {SEED}"
    assert report["killed"] == report["lives"] >= LIVES, f"seed {SEED}: every vault ended by a kill"
    assert report["observed"] >= ENOUGH_RELEASES, f"seed {SEED}: enough releases for a meaningful test"
    assert report["unfinished"] >= ENOUGH_UNFINISHED, f"seed {SEED}: enough kills between charge and release"
