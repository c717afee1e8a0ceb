"""Agents whose vaults are separate processes: they learn as usual, and each survives the other's end."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.node.local_vault import LEDGER
from sottovoce.privacy.vault import Ledger, Spending
from sottovoce_operator.fleet import Fleet

from tests.support.command import document
from tests.support.devices import Device, accuracy
from tests.support.processes import AGREED, AgentProcess, running, sottovoce
from tests.support.vaults import VaultProcess, separate_device, vault_directory, vault_section
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.process

STEPS = 20
PLENTY = {"privacy": {"epsilon": 100.0}}  # a few records are enough to learn from


def device_at(
    fleet: Fleet, state: Path, *, seed: int = 0, vault: dict[str, Any] | None = None, **tables: Any
) -> Device:
    """A device without peers."""
    device = separate_device(fleet, state, seed=seed, epsilon=100.0)
    return device.configure(**PLENTY, vault=vault_section(state, **(vault or {})), **tables)


def spending(device: Device) -> Spending:
    """Return the spending in the vault directory's ledger."""
    ledger = Ledger.read(vault_directory(device.state) / LEDGER)
    try:
        assert ledger.owner == device.id
        return ledger.spending()
    finally:
        ledger.close()


def test_two_agents_with_separate_vaults_learn_and_agree(fleet: Fleet, tmp_path: Path) -> None:
    """The agents have neither ledger nor records: the files are out of their reach before they start."""
    devices = [separate_device(fleet, tmp_path / name, seed=seed, epsilon=100.0) for seed, name in enumerate("ab")]
    for item, other in (devices, devices[::-1]):
        item.configure([other.entry()], **PLENTY, vault=vault_section(item.state))
    with ExitStack() as stack:
        vaults = [stack.enter_context(VaultProcess(device)).ready() for device in devices]
        for device in devices:
            device.records.rename(device.records.with_suffix(".gone"))
        agents = stack.enter_context(running(*devices))
        for agent in agents:
            until(lambda agent=agent: agent.status()["state"] == "mixing", "every private step is complete")  # type: ignore[misc]
        until(lambda: np.abs(agents[0].model() - agents[1].model()).max() < AGREED, "both have the same model")
        assert accuracy(agents[0].model()) > 0.9
        for agent in agents:
            privacy = agent.status()["privacy"]
            assert (privacy["charges"], privacy["releases"], privacy["status"]) == (STEPS, STEPS, "proved")
            assert 99 < privacy["spent_epsilon"] <= privacy["epsilon"] == 100.0
            assert not (agent.device.state / LEDGER).exists()
            output = document(
                sottovoce("ledger", "show", "--state", vault_directory(agent.device.state), "--json").stdout
            )
            assert (output["owner"], output["charges"]) == (agent.device.id, STEPS)
        assert [agent.end() for agent in agents] == [0, 0]
        assert [vault.end() for vault in vaults] == [0, 0]
    for device in devices:
        assert (spending(device).charges, spending(device).releases) == (STEPS, STEPS)


@pytest.mark.smoke
def test_a_killed_vault_resumes_where_it_stopped(fleet: Fleet, tmp_path: Path) -> None:
    device = device_at(fleet, tmp_path / "a", learner={"steps": 60, "period": 0.05})
    with VaultProcess(device) as first, AgentProcess(device) as agent:
        until(lambda: agent.ready().status()["steps_done"] >= 5, "some steps are complete")
        first.end(signal.SIGKILL)
        until(lambda: "vault-process" in {wait["name"] for wait in agent.status()["waiting"]}, "it waits for the vault")
        output = sottovoce("agent", "status", "--config", device.config, "--why").stdout
        socket_path = vault_section(device.state)["socket"]
        assert f"waiting for the vault's process to answer at {socket_path}: " in output
        assert agent.lines("vault-away")
        with VaultProcess(device):
            until(lambda: agent.status()["state"] == "mixing", "every private step is complete")
            assert "vault-process" not in {wait["name"] for wait in agent.status()["waiting"]}
            assert agent.end() == 0
    assert (spending(device).charges, spending(device).releases) == (60, 60)


def test_an_agent_without_its_vault_reports_it_and_continues_once_a_vault_runs(fleet: Fleet, tmp_path: Path) -> None:
    device = device_at(fleet, tmp_path / "a", vault={"patience": 0.5})
    with AgentProcess(device) as agent:
        until(lambda: agent.lines("fault-passes", "kind=vault"), "it shows what it waits for")
        assert agent.lines("no vault has answered for 0.5 s", "start it with `sottovoce vault run --config FILE`")
        with VaultProcess(device) as vault:
            vault.ready()
            until(lambda: agent.lines("ready id="), "it is working")
            vault.end(signal.SIGKILL)
        until(lambda: agent.lines("vault-away"), "it waits for its vault")
        with VaultProcess(device) as vault:
            vault.ready()
            until(lambda: agent.ready_or_ended() == "ready" and "steps_done" in agent.status(), "it is working again")
            assert agent.end() == 0


def test_an_agent_waiting_for_its_vault_can_be_stopped(fleet: Fleet, tmp_path: Path) -> None:
    device = device_at(fleet, tmp_path / "a", vault={"patience": 300.0}, transport={"timeout": 0.5})
    with VaultProcess(device) as vault, AgentProcess(device) as agent:
        vault.ready()
        agent.ready()
        vault.end(signal.SIGKILL)
        until(lambda: "vault-process" in {wait["name"] for wait in agent.status()["waiting"]}, "it waits for the vault")
        assert agent.end() == 0
        assert "Traceback" not in agent.log()


def test_a_vault_ends_on_signals_and_removes_its_socket(fleet: Fleet, tmp_path: Path) -> None:
    device = device_at(fleet, tmp_path / "a")
    for signum, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
        with VaultProcess(device) as vault:
            vault.ready()
            second = sottovoce("vault", "run", "--config", device.config)
            assert (second.returncode, "another agent is using this ledger" in second.stderr) == (5, True)
            assert vault.end(signum) == code
            assert "Traceback" not in vault.log()
        assert not Path(vault_section(device.state)["socket"]).exists()


def test_the_vault_s_process_has_no_network(fleet: Fleet, tmp_path: Path) -> None:
    """The process imports neither gRPC nor the wire format, listens on one Unix socket, and can open no other kind."""
    device = device_at(fleet, tmp_path / "a")
    code = (
        "import atexit, os, socket, sys\n"
        "def report():\n"
        "    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):\n"
        "        try:\n"
        "            socket.socket(family, socket.SOCK_DGRAM).close()\n"
        "            print('opened', family)\n"
        "        except PermissionError:\n"
        "            pass\n"
        "    child = os.spawnlp(os.P_WAIT, sys.executable, sys.executable, '-c', 'import socket; socket.socket()')\n"
        "    print('child', 'opened' if child == 0 else 'refused')\n"
        "    socket.socket(socket.AF_UNIX).close()\n"
        "    print(*sys.modules)\n"
        "atexit.register(report)\n"
        "from sottovoce.cli.main import main\n"
        "sys.argv = ['sottovoce', 'vault', 'run', '--config', sys.argv[1]]\n"
        "main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(device.config)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        until(lambda: Path(vault_section(device.state)["socket"]).exists(), "it listens")
        if os.getuid() == 0:  # no other user may look
            stored = {entry.readlink() for entry in Path("/proc", str(process.pid), "fd").iterdir()}
            sockets = {str(name) for name in stored if str(name).startswith("socket:")}
            unix = Path("/proc/net/unix").read_text()
            assert sockets
            assert all(f" {name[8:-1]} " in unix or f" {name[8:-1]}\n" in unix for name in sockets)
        with AgentProcess(device) as agent:
            until(lambda: agent.ready().status()["state"] == "mixing", "every private step is complete")
        process.terminate()
        out, _ = process.communicate(timeout=TIMEOUT)
    lines = out.splitlines()
    assert lines[0] == "child refused", out
    modules = {name.partition(".")[0] for name in lines[1].split()}
    assert {"sottovoce", "numpy", "sqlite3"} <= modules
    assert not modules & {"grpc", "google", "cryptography", "sottovoce_bootstrap", "http", "urllib3"}
    assert not {
        "sottovoce.net.wire",
        "sottovoce.net.transports",
        "sottovoce.fleet",
        "sottovoce.learning.learners",
    } & set(lines[1].split())


def test_a_second_ledger_next_to_the_agent_stops_it(fleet: Fleet, tmp_path: Path) -> None:
    device = device_at(fleet, tmp_path / "a")
    shutil.copy(vault_directory(device.state) / LEDGER, device.state / LEDGER)
    ran = sottovoce("agent", "run", "--config", device.config)
    assert ran.returncode == 5
    assert "the agent has its own ledger although vault.socket is set" in ran.stderr


@pytest.mark.parametrize(
    "section, words",
    [
        ({}, "vault.socket or vault.directory is missing"),
        ({"socket": "x.sock"}, "vault.directory: a separate vault requires both"),
        ({"directory": "x"}, "vault.socket: a separate vault requires both"),
        ({"socket": "x.sock", "directory": "x", "agent_user": "no such user"}, "there is no user `no such user`"),
    ],
)
def test_an_unconfigured_vault_names_the_missing_settings(
    fleet: Fleet, tmp_path: Path, section: dict[str, Any], words: str
) -> None:
    device = separate_device(fleet, tmp_path / "a").configure(vault=section)
    ran = sottovoce("vault", "run", "--config", device.config)
    assert ran.returncode == 3
    assert words in ran.stderr


def test_relative_paths_are_relative_to_the_file(fleet: Fleet, tmp_path: Path) -> None:
    device = device_at(fleet, tmp_path / "a", vault={"socket": "a-vault.sock", "directory": "a-vault"})
    with VaultProcess(device, cwd="/") as vault:
        vault.ready()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(tmp_path / "a-vault.sock"))


def test_joining_creates_both_directories_or_neither(tmp_path: Path) -> None:
    completed = sottovoce("fleet", "init", "--name", "hill-street", "--fleet", tmp_path / "fleet")
    assert completed.returncode == 0
    state, vault = tmp_path / "a", tmp_path / "a-vault"
    join = ("fleet", "join", "--fleet", tmp_path / "fleet", "--state", state, "--vault")
    inside = sottovoce(*join, state / "vault")
    assert (inside.returncode, "specify a vault directory outside" in inside.stderr) == (6, True)
    assert not state.exists()
    joined = sottovoce(*join, vault)
    assert joined.returncode == 0
    assert sorted(path.name for path in state.iterdir()) == ["identity"]
    assert LEDGER in {path.name for path in vault.iterdir()}
    assert vault.stat().st_mode & 0o077 == 0
    repeated = sottovoce("fleet", "join", "--fleet", tmp_path / "fleet", "--state", tmp_path / "b", "--vault", vault)
    assert (repeated.returncode, "already exists" in repeated.stderr) == (6, True)
    assert not (tmp_path / "b").exists()
