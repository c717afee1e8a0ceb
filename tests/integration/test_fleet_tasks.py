"""A fleet changes what it learns by a document that it signs: devices change over, and their ledgers go on."""

from pathlib import Path
from typing import Any

import pytest
import tomlkit
from sottovoce.errors import NetworkError
from sottovoce.identity import open_fleet
from sottovoce.vault import Ledger
from sottovoce.vault.account import account_of, audited

from tests.support.devices import CLASSES, FEATURES, Device, new_device
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess, running, sottovoce
from tests.support.waiting import until

LIFE = 100.0
SHARED = {"features": FEATURES, "classes": CLASSES, "expected_records": 60, "bounds": [0.0, 1.0]}
RELATION = {"neighbouring": "replace-one"}
CLIPD2P: dict[str, dict[str, Any]] = {
    "task": {"name": "kinds of load", "purpose": "research"},
    "data": SHARED,
    "learner": {"name": "clipd2p", "steps": 6, "mixing": "push-sum"},
    "privacy": {"epsilon": 30.0, **RELATION},
}
GOLF: dict[str, dict[str, Any]] = {
    "task": {"name": "the same by golf", "purpose": "billing"},
    "data": SHARED,
    "learner": {"name": "golf"},
    "privacy": {"epsilon": 20.0},
}
AVERAGE: dict[str, dict[str, Any]] = {
    "task": {"name": "mean profile", "purpose": "research"},
    "data": {**SHARED, "transform": "none"},
    "learner": {"name": "average"},
    "privacy": {"epsilon": 20.0},
}


def propose(directory: Path, fleet: Path, tables: dict[str, dict[str, Any]], device: Device) -> None:
    """As an operator does: two commands."""
    file = directory / "task.toml"
    file.write_text(tomlkit.dumps(tables))
    signed = directory / f"{tables['task']['name']}.task"
    for words in (
        ("fleet", "task", "propose", file, "--fleet", fleet, "--out", signed),
        ("fleet", "task", "install", signed, "--state", device.state),
    ):
        done = sottovoce(*words)
        assert done.returncode == 0, done.stderr


def at(agent: AgentProcess, epoch: int, learner: str) -> bool:
    """Whether it works on the task of this epoch; between two tasks it answers nobody for a moment."""
    try:
        status = agent.status()
    except NetworkError:
        return False
    return status.get("task", {}).get("epoch") == epoch and status["learner"] == learner


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A fleet of its own, whose directory the operator has."""
    new_fleet(tmp_path / "fleet")
    return tmp_path / "fleet"


@pytest.fixture
def devices(authority: Path, tmp_path: Path) -> list[Device]:
    fleet = open_fleet(authority)
    made = [
        new_device(fleet, tmp_path / name, seed=seed, epsilon=LIFE, neighbouring="replace-one")
        for seed, name in enumerate("abcd")
    ]
    for device in made:
        policy = tmp_path / "policy.toml"
        policy.write_text('purposes = ["research"]\n')
        careful = {"policy": str(policy)} if device is made[3] else {}
        peers = [other.entry() for other in made if other is not device]
        device.configure(peers, privacy={"epsilon": LIFE, **RELATION}, vault={"tasks": "signed", **careful})
    return made


@pytest.mark.timeout(600)
def test_devices_change_over_and_those_that_may_not_go_on(
    devices: list[Device], authority: Path, tmp_path: Path
) -> None:
    first, second, away, careful = devices
    with running(first, second, careful) as agents:
        for agent in agents:
            until(lambda agent=agent: agent.status()["privacy"]["exhausted"], "it waits for a task")  # type: ignore[misc]
        propose(tmp_path, authority, CLIPD2P, first)
        for agent in agents:
            until(lambda agent=agent: at(agent, 1, "clipd2p"), "it is in epoch 1")  # type: ignore[misc]
            until(lambda agent=agent: agent.status()["steps_done"] == 6, "it has learnt")  # type: ignore[misc]
        assert agents[0].status()["privacy"]["epsilon"] == 30.0
        propose(tmp_path, authority, GOLF, second)
        for agent in agents[:2]:
            until(lambda agent=agent: at(agent, 2, "golf"), "it is in epoch 2")  # type: ignore[misc]
        refuses = "the owner's policy allows the purposes research, and this task's is billing"
        until(lambda: agents[2].status()["task"]["next"]["because"] == refuses, "it says why it does not")
        assert at(agents[2], 1, "clipd2p")
        told = sottovoce("agent", "status", "--config", careful.config).stdout
        assert "epoch 2 'the same by golf' is not taken up: the owner's policy allows" in told
    with running(first, away) as agents:
        until(lambda: at(agents[1], 2, "golf"), "who was off learns of it from another")
        propose(tmp_path, authority, AVERAGE, first)
        for agent in agents:
            until(lambda agent=agent: at(agent, 3, "average"), "it is in epoch 3")  # type: ignore[misc]
            until(lambda agent=agent: agent.status()["privacy"]["releases"] > 0, "it has released")  # type: ignore[misc]
    for device in devices:
        ledger = Ledger.read(device.ledger)
        spending, _ = audited(account_of(ledger))
        assert 0 < spending.epsilon <= LIFE
        ledger.close()
