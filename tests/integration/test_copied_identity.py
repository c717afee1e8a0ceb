"""Two devices with the keys of one: both detect it, log and status name it, and the fleet continues."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.devices import Device, free_port, new_device
from tests.support.processes import AgentProcess, running, sottovoce
from tests.support.waiting import until

pytestmark = pytest.mark.process

SAMPLED = {"sampling": "newscast", "period": 0.5}
NOTHING_RELEASED = {"alone": False, "echoes": 1000}  # the copies of the ledger stay identical


def _copy_device(device: Device, state: Path) -> Device:
    shutil.copytree(device.state, state)
    shutil.copy(device.records, state.with_suffix(".npz"))
    return replace(device, state=state, port=free_port())


def _has_alarm(agent: AgentProcess) -> bool:
    return agent.process.poll() is None and agent.status()["membership"]["duplicates"] > 0


def test_a_copied_device_is_detected_named_and_shown(fleet: Fleet, tmp_path: Path) -> None:
    devices = [new_device(fleet, tmp_path / name, records=3) for name in "abc"]
    original, *others = devices
    copy = _copy_device(original, tmp_path / "copy")
    for device in (*devices, copy):
        seeds = [other.entry() for other in others if other is not device]
        device.configure(seeds, membership=SAMPLED, learner={"period": 0.5, "steps": 1}, ledger=NOTHING_RELEASED)
    with running(*devices, copy) as agents:
        for agent in (agents[0], agents[3]):
            until(lambda agent=agent: _has_alarm(agent), "it detects its copy")  # type: ignore[misc]
            assert "another device uses this device's identity" in agent.lines("duplicate-identity")[0]
            completed = sottovoce("agent", "status", "--config", agent.device.config).stdout
            assert completed.startswith("ALARM    another device is using this device's identity")
        for agent in agents[1:3]:
            assert agent.status()["membership"]["duplicates"] == 0
            assert len(agent.status()["membership"]["view"]) == 2
