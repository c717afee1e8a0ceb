"""Signed change of a fleet's task: devices switch to the new task, and their ledgers continue."""

import re
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from sottovoce.errors import NetworkError
from sottovoce.kernels.onnx.allowlist import graph_digest
from sottovoce.privacy.accounting.gaussian import format_rounded_up, gaussian_epsilon, gaussian_mu
from sottovoce.privacy.ledger.ledger_file import connect
from sottovoce.privacy.vault import Ledger
from sottovoce.reports.account import audit_account, build_account
from sottovoce_operator.fleet import open_fleet

from tests.support.command import document
from tests.support.devices import CLASSES, FEATURES, Device, new_device
from tests.support.fleets import new_fleet
from tests.support.graphs import graph
from tests.support.processes import AgentProcess, running, sottovoce
from tests.support.vaults import VaultProcess, separate_device, vault_directory, vault_section
from tests.support.waiting import until

pytestmark = pytest.mark.process

LIFE = 300.0
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

GRAPH: dict[str, dict[str, Any]] = {
    "task": {"name": "by a graph", "purpose": "research"},
    "data": {**SHARED, "transform": "squash(1)"},
    "learner": {"name": "clipd2p", "steps": 4, "model": "mine.onnx"},
    "privacy": {"epsilon": 10.0, **RELATION},
}


def propose(directory: Path, fleet: Path, tables: dict[str, dict[str, Any]], device: Device) -> None:
    """Propose a task with two commands, as an operator does."""
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
    """Check whether the agent works on this epoch's task; it does not answer for a moment between two tasks."""
    try:
        status = agent.status()
    except NetworkError:
        return False
    return bool(status.get("task", {}).get("epoch") == epoch and status["learner"] == learner)


def list_waits(agent: AgentProcess) -> list[str]:
    return [wait["name"] for wait in agent.status()["waiting"]]


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A separate fleet whose directory the operator has."""
    new_fleet(tmp_path / "fleet")
    return tmp_path / "fleet"


@pytest.fixture
def devices(authority: Path, tmp_path: Path) -> list[Device]:
    fleet, mine = open_fleet(authority), tmp_path / "mine.onnx"
    mine.write_bytes(graph(FEATURES, CLASSES))
    graphs = {"graph_directory": str(tmp_path), "graphs": [graph_digest(str(mine))]}
    created = [
        new_device(fleet, tmp_path / name, seed=seed, epsilon=LIFE, neighbouring="replace-one")
        for seed, name in enumerate("abcd")
    ]
    for device in created:
        policy = tmp_path / "policy.toml"
        policy.write_text('approve = "auto"\npurposes = ["research"]\n')
        careful = {"policy": str(policy)} if device is created[3] else {}
        peers = [other.entry() for other in created if other is not device]
        device.configure(peers, privacy={"epsilon": LIFE, **RELATION}, vault={"tasks": "signed", **careful, **graphs})
    return created


@pytest.mark.timeout(600)
def test_devices_switch_tasks_and_excluded_devices_continue(
    devices: list[Device], authority: Path, tmp_path: Path
) -> None:
    first, second, away, careful = devices
    with running(first, second, careful) as agents:
        for agent in agents:
            until(lambda agent=agent: "fleet-task" in list_waits(agent), "it waits for a task")  # type: ignore[misc]
        propose(tmp_path, authority, CLIPD2P, first)
        for agent in agents:
            until(lambda agent=agent: at(agent, 1, "clipd2p"), "it is in epoch 1")  # type: ignore[misc]
            until(lambda agent=agent: agent.status()["steps_done"] == 6, "it has learnt")  # type: ignore[misc]
        assert agents[0].status()["privacy"]["epsilon"] == 30.0
        propose(tmp_path, authority, GOLF, second)
        for agent in agents[:2]:
            until(lambda agent=agent: at(agent, 2, "golf"), "it is in epoch 2")  # type: ignore[misc]
        refuses = "the owner's policy allows only these values of purposes: research; this task's is billing"
        until(lambda: (agents[2].status()["task"]["next"] or {}).get("because") == refuses, "it states why it does not")
        assert at(agents[2], 1, "clipd2p")
        output = sottovoce("agent", "status", "--config", careful.config).stdout
        assert "epoch 2 'the same by golf' has not been started: the owner's policy allows" in output
    with running(first, second, away) as agents:  # the second device stores the first one's ledger head
        until(lambda: at(agents[2], 2, "golf"), "the device that was off learns of it from another")
        propose(tmp_path, authority, AVERAGE, first)
        for agent in agents:
            until(lambda agent=agent: at(agent, 3, "average"), "it is in epoch 3")  # type: ignore[misc]
            until(lambda agent=agent: agent.status()["steps_done"] == 1, "it has released")  # type: ignore[misc]
        propose(tmp_path, authority, GRAPH, first)
        for agent in agents:
            until(lambda agent=agent: at(agent, 4, "clipd2p"), "it is in epoch 4")  # type: ignore[misc]
            until(lambda agent=agent: agent.status()["steps_done"] == 4, "it has learnt the graph's model")  # type: ignore[misc]
    for device in devices:
        ledger = Ledger.read(device.ledger)
        spending, _ = audit_account(build_account(ledger))
        assert 0 < spending.epsilon <= LIFE
        ledger.close()


@pytest.mark.timeout(300)
def test_a_separate_vault_activates_the_task_that_its_owner_has_approved(authority: Path, tmp_path: Path) -> None:
    """Agent and vault are killed during the change, and both resume in the new task."""
    device = separate_device(open_fleet(authority), tmp_path / "a", epsilon=LIFE, neighbouring="replace-one")
    (tmp_path / "policy.toml").write_text('approve = "ask"\nepsilon = 5.0\n')
    mine = vault_section(device.state, tasks="signed", policy=str(tmp_path / "policy.toml"))
    device.configure(privacy={"epsilon": LIFE, **RELATION}, vault=mine)
    with VaultProcess(device) as vault, AgentProcess(device) as agent:
        vault.ready()
        until(lambda: agent.ready_or_ended() == "ready" and "fleet-task" in list_waits(agent), "it waits for a task")
        propose(tmp_path, authority, CLIPD2P, device)
        asks = "the task awaits the owner's approval: sottovoce agent task approve 1"
        until(lambda: (agent.status()["task"]["next"] or {}).get("because") == asks, "it asks for consent")
        assert sottovoce("agent", "task", "approve", "2", "--config", device.config).returncode == 2
        assert sottovoce("agent", "task", "approve", "1", "--config", device.config).returncode == 0
        until(lambda: at(agent, 1, "clipd2p"), "it is in epoch 1")
        until(lambda: agent.status()["steps_done"] == 6, "it has learnt")
        assert agent.status()["privacy"]["epsilon"] == 5.0, "the task's 30 are more than the owner allows"
        agent.end(signal.SIGKILL)
        vault.end(signal.SIGKILL)
    with VaultProcess(device) as vault, AgentProcess(device) as agent:
        vault.ready()
        until(lambda: agent.ready_or_ended() == "ready" and at(agent, 1, "clipd2p"), "it is in epoch 1 again")
        until(lambda: agent.status()["steps_done"] == 6, "it has the ledger's releases")
        assert agent.status()["privacy"]["charges"] == 6
        printed = sottovoce("agent", "status", "--config", device.config).stdout
        two_records = re.search(r"2 records, in this task alone: ε = ([0-9.]+), in the same releases", printed)
        assert two_records is not None
        mu = gaussian_mu(5.0, 1e-5)
        assert float(two_records[1]) == pytest.approx(gaussian_epsilon(2 * mu, 1e-5), rel=1e-3), "the task's ε, not 300"
        assert sottovoce("agent", "task", "withdraw", "1", "--config", device.config).returncode == 0
        output = document(sottovoce("agent", "tasks", "--config", device.config, "--json").stdout)
        assert (output["epoch"], output["newest"], output["consent"]) == (1, 1, "withdrawn")
        assert (agent.end(), vault.end()) == (0, 0)


@pytest.mark.timeout(300)
def test_a_device_with_a_spent_budget_learns_again_in_the_next_period(authority: Path, tmp_path: Path) -> None:
    """The fleet signs first; the passage of 365 days is written into the vault's file between two starts."""
    own = {"epsilon": 20.0, "unit": "device"}
    device = separate_device(open_fleet(authority), tmp_path / "a", epsilon=20.0, unit="device")
    (tmp_path / "policy.toml").write_text('approve = "auto"\nrenews = "year"\nepsilon_per_year = 30\n')
    mine = vault_section(device.state, tasks="signed", policy=str(tmp_path / "policy.toml"))
    device.configure(privacy=own, vault=mine)
    with VaultProcess(device) as vault, AgentProcess(device) as agent:
        vault.ready()
        propose(tmp_path, authority, {**CLIPD2P, "privacy": own}, device)
        until(lambda: agent.ready_or_ended() == "ready" and at(agent, 1, "clipd2p"), "it is in epoch 1")
        until(lambda: agent.status()["steps_done"] == 6, "it has learnt")
        later = {**CLIPD2P, "task": {"name": "next year", "purpose": "research", "period": 1}, "privacy": own}
        propose(tmp_path, authority, later, device)
        until(lambda: at(agent, 2, "clipd2p") and "fleet-task" in list_waits(agent), "it waits in epoch 2")
        status = agent.status()
        assert status["steps_done"] == 0
        assert (status["ledger"]["period"]["number"], status["ledger"]["period"]["next_is_signed"]) == (0, True)
        (limit,) = status["ledger"]["limits"]
        assert (limit["span"], limit["epsilon"], round(limit["ends_days"])) == ("year", 30.0, 365)
        assert 0 < limit["spent_epsilon"] == pytest.approx(status["ledger"]["spent_epsilon"])
        assert status["ledger"]["lasts_days"] is None, "it has not been running for a day"
        output = sottovoce("agent", "status", "--config", device.config).stdout
        spent = format_rounded_up(limit["spent_epsilon"])
        assert f"limit    ε {spent} of 30 spent this year, which ends in 365 days of running time" in output
        assert "of at least 365 days of running time; the fleet has signed a task for the next period" in output
        assert (agent.end(), vault.end()) == (0, 0)
    ledger_file = vault_directory(device.state) / "ledger.db"
    with closing(connect(ledger_file, "rw")) as connection:
        connection.execute("UPDATE lived SET seconds = seconds + 365 * 86400")
    with VaultProcess(device) as vault, AgentProcess(device) as agent:
        vault.ready()
        until(lambda: agent.ready_or_ended() == "ready" and agent.status()["steps_done"] == 6, "it learns again")
        period = agent.status()["ledger"]["period"]
        assert (period["number"], period["spent_epsilon"]) == (1, pytest.approx(20.0, abs=0.1))
        assert 25 < agent.status()["ledger"]["spent_epsilon"] < 40
        assert (agent.end(), vault.end()) == (0, 0)
    with closing(Ledger.read(ledger_file)) as ledger:
        audit_account(build_account(ledger))


def test_the_guarantee_is_reported_for_the_task_and_for_all_tasks(authority: Path, tmp_path: Path) -> None:
    device = new_device(open_fleet(authority), tmp_path / "a", epsilon=LIFE, neighbouring="replace-one")
    device.configure(privacy={"epsilon": LIFE, **RELATION}, vault={"tasks": "signed"})
    propose(tmp_path, authority, CLIPD2P, device)
    with running(device) as (agent,):
        until(lambda: at(agent, 1, "clipd2p") and agent.status()["steps_done"] == 6, "it has learnt")
    explanation = document(sottovoce("privacy", "explain", "--config", device.config, "--json").stdout)
    assert (explanation["statement"]["epsilon"], explanation["left"]["epsilon"]) == (30.0, pytest.approx(0.0, abs=0.1))
    assert explanation["all_tasks"]["epsilon"] == LIFE
    assert explanation["all_tasks"]["spent_epsilon"] == pytest.approx(30.0, abs=0.1)
    assert "all tasks     up to epoch 1: ε = 30 of 300, record level, replace-one" in (
        sottovoce("privacy", "explain", "--config", device.config).stdout
    )
    assert sottovoce("privacy", "dossier", "--config", device.config, "--out", tmp_path / "dossier").returncode == 0
    assert (
        "for all of this device's tasks together ε = 300 at most" in (tmp_path / "dossier" / "dossier.md").read_text()
    )
    assert sottovoce("doctor", "--config", device.config).returncode == 0
