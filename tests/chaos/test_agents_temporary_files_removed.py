"""Cleaner of temporary files that removes a running agent's gRPC socket: peers still reach the agent."""

import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.devices import free_port, new_device
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess
from tests.support.waiting import until

pytestmark = pytest.mark.process


def test_peers_reach_an_agent_whose_temporary_files_are_gone(tmp_path: Path) -> None:
    fleet: Fleet = new_fleet(tmp_path / "fleet")
    device_a, device_b = (new_device(fleet, tmp_path / name) for name in ("one", "other"))
    metrics, temporary = f"127.0.0.1:{free_port()}", tmp_path / "tmp"
    temporary.mkdir()
    for device, peer in ((device_a, device_b), (device_b, device_a)):
        observe = {"metrics": metrics} if device is device_a else {}
        device.configure([peer.entry()], learner={"steps": 10_000, "period": 0.1}, observe=observe)
    with AgentProcess(device_a, ("env", f"TMPDIR={temporary}")) as agent:
        with AgentProcess(device_b) as neighbour:
            agent.ready()
            neighbour.ready()
            until(lambda: agent.status()["traffic"]["received"] > 0, "the agents exchange messages")
            assert neighbour.end() == 0
        (directory,) = temporary.glob("sottovoce-*")
        shutil.rmtree(directory)
        received = agent.status()["traffic"]["received"]
        with AgentProcess(device_b) as restarted:  # needs new connections
            restarted.ready()
            until(lambda: agent.status()["traffic"]["received"] > received + 5, "the agents exchange messages again")
            assert restarted.status()["peers"][0]["failures_in_a_row"] == 0
            assert _health(metrics)["healthy"]
            assert agent.status()["transport"]["trouble"] == ""
            assert [agent.end(), restarted.end()] == [0, 0]


def _health(address: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=20) as answer:
            health: dict[str, Any] = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        health = json.loads(error.read())
    return health
