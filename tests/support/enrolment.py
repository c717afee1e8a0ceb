"""Create devices with the `sottovoce fleet join` command."""

from pathlib import Path
from typing import Any

import numpy as np
from sottovoce.fleet import load
from sottovoce.fleet.identity import IDENTITY
from sottovoce.privacy.vault import Budget

from tests.support.command import run_here
from tests.support.devices import Device, free_port
from tests.support.processes import running
from tests.support.waiting import until

BUDGET = Budget(2.0, 1e-5, "record", "add-remove")
QUICK: dict[str, dict[str, Any]] = {"learner": {"period": 0.05, "steps": 1}, "identity": {"look_every": 0.05}}


def join_device(state: Path, *arguments: object) -> Device:
    """Make a device with the command, and give it some records."""
    completed = run_here("fleet", "join", "--state", state, *arguments)
    assert completed.code == 0, completed
    device = Device(state, load(state / IDENTITY, check_dates=False), free_port())
    assert completed.out.split() == [device.id]
    random = np.random.default_rng(0)
    return device.hold(random.uniform(0, 1, (60, 4)), random.integers(0, 3, 60))


def wait_until_learning(*devices: Device) -> None:
    """Run all of the devices, until each has received a message from another device."""
    with running(*devices) as agents:
        for agent in agents:
            until(lambda agent=agent: agent.status()["traffic"]["received"] > 0, "it receives a share")  # type: ignore[misc]
