"""Two real agents with nothing left to learn: both become silent; one that restarts is heard, and stops promptly."""

from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.devices import new_device
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

pytestmark = pytest.mark.process

PERIOD, SILENCE = 0.01, 1.0  # seconds


def test_agents_that_agree_become_silent_and_a_restarted_one_is_heard(fleet: Fleet, tmp_path: Path) -> None:
    device_a, device_b = (new_device(fleet, tmp_path / name) for name in ("one", "other"))
    for device, peer in ((device_a, device_b), (device_b, device_a)):
        device.configure([peer.entry()], learner={"steps": 3, "period": PERIOD, "longest_period": 3600.0})
    with running(device_a, device_b) as (first, second):
        until(lambda: min(_pause(first), _pause(second)) > SILENCE, "both have become silent")
        cycle, received = first.status()["cycle"], second.status()["traffic"]["received"]
        assert first.end() == 0
        with AgentProcess(device_a) as restarted:
            until(lambda: restarted.ready().status()["cycle"] > cycle + 3, "the restarted agent works at once")
            assert restarted.status()["state"] == "mixing"
            until(lambda: second.status()["traffic"]["received"] > received + 3, "its message is received")
            until(lambda: _pause(restarted) > SILENCE, "it becomes silent again")
            assert restarted.end() == 0


def _pause(agent: AgentProcess) -> float:
    """Return the seconds between its last cycle and its next."""
    waits = [wait["since_s"] + wait["left_s"] for wait in agent.status()["waiting"] if wait["name"] == "timer:cycle"]
    return float(max(waits, default=0.0))
