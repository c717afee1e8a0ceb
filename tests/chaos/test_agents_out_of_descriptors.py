"""Agent that runs out of file descriptors: it waits, loses nothing, and continues once descriptors are available."""

import resource
from pathlib import Path

from sottovoce.identity import Fleet

from tests.support.books import spending
from tests.support.devices import new_device
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

STEPS = 60


def test_it_goes_on_when_descriptors_are_back(tmp_path: Path) -> None:
    fleet: Fleet = new_fleet(tmp_path / "fleet")
    one, other = (new_device(fleet, tmp_path / name) for name in ("one", "other"))
    for device, peer in ((one, other), (other, one)):
        device.configure([peer.entry()], learner={"steps": STEPS, "period": 0.1})
    with running(one, other) as (agent, neighbour):
        until(lambda: agent.status()["steps_done"] >= 5, "some steps are done")
        soft, hard = _limit(agent, 3)  # what is open stays open; nothing else can be
        assert neighbour.end() == 0
        with AgentProcess(other) as again:  # its connections are new, and so are the agent's to it
            again.ready()
            received = again.status()["traffic"]["received"]
            _limit(agent, soft, hard)
            until(lambda: again.status()["traffic"]["received"] > received, "they meet again")
            until(lambda: agent.status()["steps_done"] == STEPS, "all steps are done")
            until(lambda: again.status()["steps_done"] == STEPS, "and its neighbour's")
            assert agent.process.poll() is None
            assert len(agent.log().splitlines()) < 100
            assert [agent.end(), again.end()] == [0, 0]
    for device in (one, other):
        assert (spending(device).charges, spending(device).releases) == (STEPS, STEPS)


def _limit(agent: AgentProcess, soft: int, hard: int = -1) -> tuple[int, int]:
    """Limit the agent to this many descriptors; return the limit before."""
    before = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (soft, before[1] if hard == -1 else hard))
    return before
