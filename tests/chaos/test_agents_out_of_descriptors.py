"""Agent that runs out of file descriptors: it waits, loses nothing, and continues once descriptors are available."""

import resource
from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.books import spending
from tests.support.devices import new_device
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

pytestmark = pytest.mark.process

STEPS = 60


def test_an_agent_continues_once_descriptors_are_available(tmp_path: Path) -> None:
    fleet: Fleet = new_fleet(tmp_path / "fleet")
    device_a, device_b = (new_device(fleet, tmp_path / name) for name in ("one", "other"))
    for device, peer in ((device_a, device_b), (device_b, device_a)):
        device.configure([peer.entry()], learner={"steps": STEPS, "period": 0.1})
    with running(device_a, device_b) as (agent, neighbour):
        until(lambda: agent.status()["steps_done"] >= 5, "some steps are done")
        soft, hard = _limit_descriptors(agent, 3)  # open descriptors stay open, but no more can be opened
        assert neighbour.end() == 0
        with AgentProcess(device_b) as restarted:  # both sides need new connections
            restarted.ready()
            received = restarted.status()["traffic"]["received"]
            _limit_descriptors(agent, soft, hard)
            until(lambda: restarted.status()["traffic"]["received"] > received, "the agents exchange messages again")
            until(lambda: agent.status()["steps_done"] == STEPS, "all steps are done")
            until(lambda: restarted.status()["steps_done"] == STEPS, "all of the neighbour's steps are done")
            assert agent.process.poll() is None
            assert len(agent.log().splitlines()) < 100
            assert [agent.end(), restarted.end()] == [0, 0]
    for device in (device_a, device_b):
        assert (spending(device).charges, spending(device).releases) == (STEPS, STEPS)


def _limit_descriptors(agent: AgentProcess, soft: int, hard: int = -1) -> tuple[int, int]:
    """Limit the agent's descriptors; return the previous limits."""
    before = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (soft, before[1] if hard == -1 else hard))
    return before
