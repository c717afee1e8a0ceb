"""`fleet status`: the fleet's present devices, from any running device, without a server."""

import signal
from pathlib import Path
from typing import Any

import pytest
from sottovoce import __version__
from sottovoce_operator.fleet import open_fleet

from tests.integration.test_leaving import leave
from tests.integration.test_peer_sampling_processes import UNHURRIED, has_found, sampled
from tests.integration.test_revocation import authority as authority, install, revoke
from tests.support.command import document
from tests.support.devices import Device, new_device
from tests.support.processes import running, sottovoce
from tests.support.waiting import until

pytestmark = pytest.mark.process


def show_status(device: Device) -> dict[str, Any]:
    answered = sottovoce("fleet", "status", "--state", device.state, "--json")
    assert answered.returncode == 0, answered.stderr
    result: dict[str, Any] = document(answered.stdout)
    return result


def states(device: Device) -> dict[str, str]:
    return {item["id"]: item["state"] for item in show_status(device)["devices"]}


def conditions(device: Device) -> dict[str, tuple[str, int, str]]:
    """Return the conditions that the answering devices report."""
    result = show_status(device)["devices"]
    return {
        item["id"]: (item["release"], item["epoch"], item["health"]) for item in result if item["health"] is not None
    }


@pytest.mark.timeout(300)
def test_killed_revoked_and_departed_devices_are_visible_from_any_device(authority: Path, tmp_path: Path) -> None:
    fleet, out = open_fleet(authority), tmp_path / "list"
    devices = [new_device(fleet, tmp_path / f"d{i}", records=3) for i in range(6)]
    for i, device in enumerate(devices):
        sampled(device, [devices[(i + 1) % 6]], UNHURRIED)
    with running(*devices) as agents:
        for agent in agents:
            others = [device for device in devices if device is not agent.device]
            until(lambda agent=agent, others=others: has_found(agent, others), "it knows all other devices", 120.0)  # type: ignore[misc]
        all_here = {device.id: "answers" for device in devices}
        until(lambda: states(devices[0]) == all_here, "all devices answer", 120.0)
        leave(agents[4])  # the test does not check whether a peer receives its mass
        assert agents[5].end(signal.SIGKILL) == -signal.SIGKILL
        killed = {devices[5].id: "silent", devices[4].id: "left"}
        expected = {device.id: "answers" for device in devices[:4]} | killed
        until(lambda: states(devices[1]) == expected, "the departed device has announced its departure", 120.0)
        whys = {item["id"]: item["why"] for item in show_status(devices[2])["devices"]}
        assert whys[devices[5].id] == "nothing listens there"
        revoke(authority, devices[3], out=out)
        install(devices[0], out)
        expected[devices[3].id] = "revoked"
        for device in devices[:3]:
            until(lambda device=device: states(device) == expected, "all devices have been informed", 120.0)  # type: ignore[misc]
        answers = {device.id: (__version__, 0, "well") for device in devices[:3]}
        until(lambda: conditions(devices[0]) == answers, "present devices report their health", 120.0)
        words = sottovoce("fleet", "status", "--state", devices[0].state).stdout
        assert words.startswith("fleet revoking: 6 devices known: "), words
        assert "this device" in words
        for agent in agents[:3]:
            assert agent.end() == 0


def test_without_an_agent_the_command_says_so(authority: Path, tmp_path: Path) -> None:
    device = new_device(open_fleet(authority), tmp_path / "d")
    completed = sottovoce("fleet", "status", "--state", device.state)
    assert (completed.returncode, "no agent answers there" in completed.stderr) == (7, True), completed.stderr
