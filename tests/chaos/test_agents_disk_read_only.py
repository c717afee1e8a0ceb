"""File system that turns read-only after an error: the agent waits, and loses nothing."""

from pathlib import Path

from tests.support.books import spending
from tests.support.disks import device_on, failing_disk, is_working
from tests.support.fleets import new_fleet
from tests.support.processes import running
from tests.support.waiting import until

STEPS = 400


def test_it_waits_until_somebody_has_repaired_it_and_goes_on(tmp_path: Path) -> None:
    with failing_disk(tmp_path) as disk:
        device = device_on(disk.at, new_fleet(tmp_path / "fleet"), tmp_path)
        device.configure(learner={"steps": STEPS, "period": 0.1})
        with running(device) as (agent,):
            until(lambda: agent.status()["steps_done"] >= 5, "some steps are done")
            disk.fail()
            until(lambda: agent.lines("fault-passes", "kind=disk"), "it says what it waits for")
            disk.repair(agent)
            before = spending(device)
            until(lambda: is_working(agent), "it is at work again")
            until(lambda: agent.status()["steps_done"] >= before.releases + 3, "it goes on")
            assert agent.end() == 0
            assert "Traceback" not in agent.log()
        after = spending(device)
        assert before.releases <= before.charges <= before.releases + 1
        assert before.charges < after.charges <= STEPS
        assert after.epsilon <= 2.0
