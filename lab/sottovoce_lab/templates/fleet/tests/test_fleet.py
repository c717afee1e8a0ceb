"""Test that the configuration is correct and that the fleet learns on this machine."""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]


def run(*command: str) -> str:
    ended = subprocess.run(
        [sys.executable, *command], cwd=HERE, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_configuration_is_correct() -> None:
    run("records.py")
    assert "correct" in run("-m", "sottovoce", "config", "check", "agent.toml")


def test_the_fleet_learns() -> None:
    run("records.py")
    report = json.loads(run("-m", "sottovoce", "run", "run.toml", "--json"))
    assert report["privacy"]["status"] == "proved"
    assert report["final"]["accuracy_mean"] > report["run"]["majority_class"]
