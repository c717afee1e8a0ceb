"""A full disk: the agent says so and ends, nothing leaves without a stored charge, and with room it goes on."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sottovoce.door import Query
from sottovoce.identity import Fleet, enrol
from sottovoce.vault import Ledger

from tests.support.attacker import Attacker, Outcome
from tests.support.books import spending
from tests.support.devices import Device, kernel, new_device, some_records
from tests.support.fleets import new_fleet
from tests.support.processes import AgentProcess, running, sottovoce
from tests.support.waiting import until


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MiB: a ledger that grows by 16 KiB a step needs 150 steps and more to fill it by itself."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", directory], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    yield directory
    subprocess.run(["umount", "--lazy", directory], check=True)


def device_on(disk: Path, fleet: Fleet, home: Path) -> Device:
    """A device whose state alone is on the small disk."""
    joined = new_device(fleet, disk / "a")
    (home / "a").symlink_to(disk / "a")
    joined.records.unlink()
    return replace(joined, state=home / "a").hold(*some_records(60, 0))


def fill(disk: Path) -> Path:
    """Leave no room at all."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 512)
        except OSError:
            return filler


def test_a_vault_that_cannot_charge_ends_the_agent(disk: Path, tmp_path: Path) -> None:
    device = device_on(disk, new_fleet(tmp_path / "fleet"), tmp_path)
    device.configure(learner={"steps": 400, "period": 0.1})
    with running(device) as (agent,):
        until(lambda: agent.status()["steps_done"] >= 5, "some steps are done")
        filler = fill(disk)
        code = agent.ended()
    # Whichever file is written first ends the agent: the ledger, or, just after a charge, the book of ledger heads.
    assert code in {4, 5}
    assert agent.lines("make room")
    assert code == 4 or agent.lines(
        "the privacy ledger cannot be used", "nothing was released", "make room on its disk"
    )
    assert "Traceback" not in agent.log()
    before = spending(device)
    assert 5 <= before.releases <= before.charges <= before.releases + 1
    assert before.epsilon <= 2.0

    refused = sottovoce("agent", "run", "--config", device.config)
    assert refused.returncode in {4, 5}, "there is still no room"
    assert "make room" in refused.stderr

    filler.unlink()
    with running(device) as (again,):
        until(lambda: again.status()["steps_done"] >= before.releases + 3, "it goes on")
        assert again.end() == 0
    after = spending(device)
    assert before.charges < after.charges <= 400
    assert after.epsilon <= 2.0
    assert _every_release_is_charged(device, 400) == after.releases


def _every_release_is_charged(device: Device, slots: int) -> int:
    ledger = Ledger.read(device.ledger)
    try:
        stored = [ledger.stored(Query("clipd2p", "gradient", slot, np.zeros(0)).id) for slot in range(slots)]
    finally:
        ledger.close()
    assert all(len(release.value) == 8 * kernel().size for release in stored if release is not None)
    return sum(release is not None for release in stored)


def test_a_share_that_cannot_be_kept_is_not_confirmed_and_ends_the_agent(disk: Path, tmp_path: Path) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    device = device_on(disk, fleet, tmp_path).configure(learner={"steps": 1, "period": 3600.0})
    with Attacker(device, enrol(fleet, tmp_path / "sender")) as sender:
        with running(device) as (agent,):
            until(lambda: agent.status()["steps_done"] == 1, "its only step is done")
            assert sender.deliver(sender.envelope(sequence=1)) == Outcome(duplicate=False)
            filler = fill(disk)
            sequence, outcome = _until_refused(sender)
            assert outcome.details == "the device failed: see what it logs"
            assert agent.ended() == 4
        assert agent.lines("state.db: cannot be written", "make room on its disk and start again")
        assert "Traceback" not in agent.log()
        filler.unlink()
        with AgentProcess(device).ready() as again:
            assert sender.deliver(sender.envelope(sequence=sequence - 1)) == Outcome(duplicate=True)
            assert sender.deliver(sender.envelope(sequence=sequence)) == Outcome(duplicate=False)
            assert again.status()["push_sum_weight"] == 1.0 + 0.5 * sequence
            assert again.end() == 0


def _until_refused(sender: Attacker) -> tuple[int, Outcome]:
    """Send one share after the other until one is not taken."""
    for sequence in range(2, 1000):
        outcome = sender.deliver(sender.envelope(sequence=sequence))
        if outcome.duplicate is None:
            return sequence, outcome
    raise AssertionError("the disk was never full")
