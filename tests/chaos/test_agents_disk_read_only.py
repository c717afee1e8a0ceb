"""File system that turns read-only after an error: the agent waits, and loses nothing."""

from pathlib import Path

import pytest

from tests.support.books import spending
from tests.support.disks import device_on, failing_disk, is_working
from tests.support.fleets import new_fleet
from tests.support.processes import running
from tests.support.waiting import until

pytestmark = pytest.mark.process

STEPS = 400


def test_an_agent_on_a_read_only_disk_waits_until_it_is_repaired(tmp_path: Path) -> None:
    with failing_disk(tmp_path) as disk:
        device = device_on(disk.at, new_fleet(tmp_path / "fleet"), tmp_path)
        device.configure(learner={"steps": STEPS, "period": 0.1})
        with running(device) as (agent,):
            until(lambda: agent.status()["steps_done"] >= 5, "some steps are done")
            disk.fail()
            until(lambda: agent.lines("fault-passes", "kind=disk"), "the log states the fault")
            disk.repair(agent)
            before = spending(device)
            until(lambda: is_working(agent), "the agent works again")
            until(lambda: agent.status()["steps_done"] >= before.releases + 3, "learning continues")
            assert agent.end() == 0
            assert "Traceback" not in agent.log()
        after = spending(device)
        assert before.releases <= before.charges <= before.releases + 1
        assert before.charges < after.charges <= STEPS
        assert after.epsilon <= 2.0
