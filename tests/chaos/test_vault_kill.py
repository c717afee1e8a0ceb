"""Two hundred sudden deaths of a vault: nothing is spent twice, and no query gets two different answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.chaos.vault_driver import ENOUGH_RELEASES, ENOUGH_UNFINISHED

DRIVER = Path(__file__).with_name("vault_driver.py")
SEED = 20_240_917
LIVES = 200


def test_a_vault_that_is_killed_at_any_moment_keeps_its_promises(tmp_path: Path) -> None:
    """The driver runs in its own process, with one thread, because it forks."""
    run = subprocess.run(
        [sys.executable, DRIVER, tmp_path, str(SEED), str(LIVES)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, f"seed {SEED}: {run.stderr}"
    found = json.loads(run.stdout)
    assert found["wrong"] == [], f"seed {SEED}"
    assert found["killed"] == found["lives"] >= LIVES, f"seed {SEED}: a vault ended by itself"
    assert found["observed"] >= ENOUGH_RELEASES, f"seed {SEED}: hardly anything was released, so hardly anything tried"
    assert found["unfinished"] >= ENOUGH_UNFINISHED, f"seed {SEED}: hardly a death fell between charge and release"
