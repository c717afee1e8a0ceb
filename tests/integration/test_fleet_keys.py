"""Change of a fleet's key under real agents: the agents are notified, renew by themselves, and continue to exchange."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from sottovoce.fleet.signed_task import SignedTask
from sottovoce_operator.fleet import open_fleet
from sottovoce_operator.fleet.ca import SPARE
from sottovoce_operator.fleet.enroller import Enroller
from sottovoce_operator.fleet.rotation import rotate

from tests.integration.test_rotation import enrolling, received, takes
from tests.support.command import run_here
from tests.support.devices import Device, free_port, new_device
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

pytestmark = pytest.mark.process

ACCEPT = 12
"""Seconds for which certificates of the key before hold: the agents renew theirs after eight."""


def trusts(agent: AgentProcess, changes: int) -> bool:
    return f"fleet-keys-changed changes={changes}" in agent.log()


def has_renewed(device: Device) -> bool:
    from sottovoce.fleet import load

    return load(device.state / "identity", check_dates=False).retired is None


@pytest.mark.timeout(300)
def test_agents_continue_across_a_change_by_the_key_and_one_by_the_spare_key(tmp_path: Path) -> None:
    authority, spare = tmp_path / "authority", tmp_path / "safe"
    new_fleet(authority, "changing")
    shutil.move(authority / SPARE, spare)
    fleet, port = open_fleet(authority), free_port()
    settings: dict[str, dict[str, Any]] = {
        "learner": {"period": 0.05, "steps": 1},
        "identity": {"look_every": 0.05, "enroller": f"127.0.0.1:{port}"},
        "membership": {"sampling": "static", "period": 0.2},
    }
    devices = [new_device(fleet, tmp_path / name) for name in "abc"]
    for device in devices:
        device.configure([other.entry() for other in devices if other is not device], **settings)
    one, two, away = devices
    with running(one, two) as agents:
        until(lambda: all(received(agent) > 5 for agent in agents), "two are running, and one is off")
        rotate(authority, ACCEPT)
        began = time.monotonic()
        assert run_here("fleet", "revoke", "--state", one.state, "--install", authority / "revoked").code == 0
        until(lambda: all(trusts(agent, 1) for agent in agents), "both know the new key")
        old = SignedTask(fleet="changing", epoch=1, issued=0, tables={"task": {"name": "x"}}).sign(fleet.sign)
        (tmp_path / "old").write_bytes(old.encoding)
        refused = run_here("fleet", "task", "install", tmp_path / "old", "--state", two.state)
        assert (refused.code, "a key that fleet 'changing' has retired" in refused.err) == (6, True), refused.err
        with running(away) as (third,):
            until(lambda: trusts(third, 1), "the device that was off learns of it when it returns")
            with enrolling(Enroller(open_fleet(authority), f"127.0.0.1:{port}", revoked=tuple)):
                until(lambda: all(has_renewed(device) for device in devices), "they renew in time")
            for agent in (*agents, third):
                takes(agent)
            until(lambda: time.monotonic() - began > ACCEPT + 1, "the old key's signatures have expired")
            counts = [received(agent) for agent in (*agents, third)]
            until(
                lambda: all(received(agent) > count + 5 for agent, count in zip((*agents, third), counts, strict=True)),
                "they still receive each other's messages",
            )
            shutil.rmtree(authority)
            saved = run_here(
                *("fleet", "rotate", "--fleet", authority, "--spare", spare, "--state", one.state, "--accept", "1h")
            )
            assert (saved.code, saved.err) == (0, ""), saved
            assert run_here("fleet", "revoke", "--state", two.state, "--install", authority / "revoked").code == 0
            until(
                lambda: all(trusts(agent, 2) for agent in (*agents, third)),
                "they know that the spare key has taken over",
            )
            assert run_here("fleet", "renew", "--fleet", authority, "--state", one.state).code == 0
            takes(agents[0])
            count = received(agents[0])
            until(lambda: received(agents[0]) > count + 5, "a device with the new key's certificate takes part")
    new = new_device(open_fleet(authority), tmp_path / "new").configure([one.entry()], **settings)
    with running(one, new) as (first, last):
        until(lambda: received(first) > 0 and last.status()["traffic"]["messages"] > 0, "a new device takes part")
