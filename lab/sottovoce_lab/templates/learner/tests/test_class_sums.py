"""The learner keeps the contract, and learns."""

import subprocess
import sys

from sottovoce.testing import check_learner

NAME = "class-sums"


def test_it_keeps_the_contract() -> None:
    check_learner(NAME)


def test_it_learns_under_the_virtual_clock() -> None:
    keys = ("agents=4", "topology=full", "cycles=20")
    command = [sys.executable, "-m", "sottovoce", "simulate", NAME, *(word for key in keys for word in ("--set", key))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "proved" in ended.stdout
