"""Full disk: the agent reports it and waits, nothing is sent without a stored charge, and with room it continues."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sottovoce.privacy.api import Query
from sottovoce.privacy.vault import Ledger
from sottovoce_operator.fleet import enrol

from tests.support.attacker import Attacker, Outcome
from tests.support.books import spending
from tests.support.devices import Device, kernel
from tests.support.disks import device_on, fill_disk, is_working, mounted
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess, running, sottovoce
from tests.support.waiting import until

pytestmark = pytest.mark.process


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a disk of 3 MiB; a ledger that grows by 16 KiB per step needs more than 150 steps to fill it."""
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=3m", "tmpfs") as directory:
        yield directory


def test_a_vault_on_a_full_disk_waits_and_continues(disk: Path, tmp_path: Path) -> None:
    device = device_on(disk, new_fleet(tmp_path / "fleet"), tmp_path)
    device.configure(
        learner={"steps": 400, "period": 1.0}
    )  # also the interval between retries, during which the agent answers
    with running(device) as (agent,):
        until(lambda: agent.status()["steps_done"] >= 5, "some steps are done")
        filler = fill_disk(disk)
        until(lambda: agent.lines("fault-passes", "kind=disk"), "the log states the fault")
        assert agent.lines("free up disk space")
        assert len(agent.lines("fault-passes")) == 1, "the line is logged at most once a minute"
        before = spending(device)
        assert 5 <= before.releases <= before.charges <= before.releases + 1
        assert before.epsilon <= 2.0

        def status_reports_wait() -> bool:
            """Return whether the status reports the wait; during a retry or without space for a socket, it may fail."""
            shown = sottovoce("agent", "status", "--state", device.state)
            return "is waiting for a fault to clear (disk)" in shown.stdout

        until(status_reports_wait, "the status says so")
        filler.unlink()
        until(lambda: is_working(agent), "the agent works again")
        until(lambda: agent.status().get("steps_done", 0) >= before.releases + 3, "learning continues")
        assert agent.end() == 0
        assert "Traceback" not in agent.log()
    after = spending(device)
    assert before.charges < after.charges <= 400
    assert after.epsilon <= 2.0
    assert _count_stored_releases(device, 400) == after.releases


def test_a_device_that_starts_on_a_full_disk_waits(disk: Path, tmp_path: Path) -> None:
    device = device_on(disk, new_fleet(tmp_path / "fleet"), tmp_path).configure(learner={"period": 0.1})
    with running(device) as (agent,):
        until(lambda: agent.status()["steps_done"] >= 2, "some steps are done")
        assert agent.end() == 0
    filler = fill_disk(disk)
    with AgentProcess(device) as restarted:
        until(lambda: restarted.lines("fault-passes", "kind=disk"), "the log states the fault")
        assert restarted.process.poll() is None
        filler.unlink()
        until(lambda: is_working(restarted), "the agent works")
        assert restarted.end() == 0


def _count_stored_releases(device: Device, slots: int) -> int:
    ledger = Ledger.read(device.ledger)
    try:
        stored = [ledger.stored_release(Query("clipd2p", "gradient", slot, np.zeros(0)).id) for slot in range(slots)]
    finally:
        ledger.close()
    assert all(len(release.value) == 8 * kernel().size for release in stored if release is not None)
    return sum(release is not None for release in stored)


def test_a_share_that_cannot_be_stored_is_accepted_once_there_is_space(disk: Path, tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    device = device_on(disk, fleet, tmp_path).configure(learner={"steps": 1, "period": 3600.0})
    with Attacker(device, enrol(fleet, tmp_path / "sender")) as sender, running(device) as (agent,):
        until(lambda: agent.status()["steps_done"] == 1, "its only step is done")
        assert sender.deliver(sender.envelope(sequence=1)) == Outcome(duplicate=False)
        filler = fill_disk(disk)
        sequence, outcome = _until_refused(sender)
        assert outcome.details == "the receiving device failed: see that device's log"
        until(lambda: agent.lines("fault-passes", "kind=disk", "cannot write", "state.db"), "the log states the reason")
        filler.unlink()
        until(lambda: is_working(agent), "the agent works again")
        before = sender.envelope(sequence=sequence - 1)
        until(
            lambda: sender.deliver(before) == Outcome(duplicate=True),
            "the agent answers again and detects the duplicate",
        )
        assert sender.deliver(sender.envelope(sequence=sequence)) == Outcome(duplicate=False)
        assert agent.status()["push_sum_weight"] == 1.0 + 0.5 * sequence
        assert "Traceback" not in agent.log()
        assert agent.end() == 0


def _until_refused(sender: Attacker) -> tuple[int, Outcome]:
    """Send one share after another until one is refused."""
    for sequence in range(2, 1000):
        outcome = sender.deliver(sender.envelope(sequence=sequence))
        if outcome.duplicate is None:
            return sequence, outcome
    raise AssertionError("the disk was never full")
