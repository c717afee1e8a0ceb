"""Devices in one fleet with different tasks: they remain peers, and exchange no models."""

from pathlib import Path
from typing import Any

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.books import books
from tests.support.devices import Device, accuracy, new_device
from tests.support.processes import AgentProcess, running, sottovoce
from tests.support.waiting import until

pytestmark = pytest.mark.process

NAMED = {"columns": ["a", "b", "c", "d"], "labels": ["x", "y", "z"]}
BASE: dict[str, dict[str, Any]] = {"data": {"bounds": [0.0, 1.0], **NAMED}, "learner": {}}
ASKED_AGAIN = 200.0  # seconds: a device whose document is still unknown is asked when it next sends its ledger head
GROUPS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "base": ("", {}),
    "bounds": ("data.bounds [[0.0],[1000.0]] where", {"data": {"bounds": [0.0, 1000.0]}}),
    "labels": ('data.labels ["z","x","y"] where', {"data": {"labels": ["z", "x", "y"]}}),
    "columns": ('data.columns ["b","a","c","d"] where', {"data": {"columns": ["b", "a", "c", "d"]}}),
    "rate": ("learner.step_size 2000.0 where", {"learner": {"step_size": 2000.0}}),
}


def configure_device(device: Device, others: list[Device], changes: dict[str, dict[str, Any]]) -> Device:
    tables = {name: {**table, **changes.get(name, {})} for name, table in BASE.items()}
    peers = [other.entry() for other in others if other.id != device.id]
    return device.configure(peers, privacy={"epsilon": 100.0}, **tables)


@pytest.fixture(scope="module")
def groups(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Device]]:
    """Two devices in each group, each listing all others."""
    directory = tmp_path_factory.mktemp("tasks")
    devices_by_group = {
        name: [new_device(fleet, directory / f"{name}-{i}", seed=i, epsilon=100.0) for i in range(2)] for name in GROUPS
    }
    all_devices = [device for devices in devices_by_group.values() for device in devices]
    for name, devices in devices_by_group.items():
        for device in devices:
            configure_device(device, all_devices, GROUPS[name][1])
    return devices_by_group


def other_tasks(agent: AgentProcess) -> list[tuple[str, int]]:
    """Return, for each other task, the differences and the number of devices."""
    return [("; ".join(other["differences"]), other["devices"]) for other in agent.status()["task"]["others"]]


def count_strangers(agent: AgentProcess) -> int:
    """Return the number of devices with another task."""
    return sum(devices for _, devices in other_tasks(agent))


@pytest.mark.timeout(900)
def test_no_model_crosses_and_every_device_reports_the_differences(groups: dict[str, list[Device]]) -> None:
    devices = [device for group in groups.values() for device in group]
    with running(*devices) as agents:
        by_id = {agent.device.id: agent for agent in agents}
        for agent in agents:
            until(lambda agent=agent: agent.status()["state"] == "mixing", "every private step is complete")  # type: ignore[misc]
        base = by_id[groups["base"][0].id]
        until(
            lambda: [devices for _, devices in other_tasks(base)] == [2, 2, 2, 2],
            "it knows all other devices",
            ASKED_AGAIN,
        )
        for name, (difference, _) in GROUPS.items():
            if difference:
                until(
                    lambda difference=difference: any(item.startswith(difference) for item, _ in other_tasks(base)),  # type: ignore[misc]
                    f"it says {difference}",
                    ASKED_AGAIN,
                )
            own = by_id[groups[name][0].id]
            until(lambda own=own: count_strangers(own) == 8, "eight devices have another task", ASKED_AGAIN)  # type: ignore[misc]
        assert accuracy(base.model()) > 0.8
        lines = sottovoce("agent", "status", "--state", base.device.state).stdout.splitlines()
        assert sum(line.startswith("apart    2 devices with another task: ") for line in lines) == 4
        result = sottovoce("doctor", "--config", base.device.config).stdout
        assert "this device does not mix with 2 devices, because their task differs" in result
        assert len(base.lines("another-task")) == 4, "each difference is logged once"
        for agent in agents:
            assert agent.end() == 0
    for name, group in groups.items():
        assert books(group).are_balanced, f"{name}: the mass of the two is what they joined with, to the last bit"


@pytest.mark.timeout(400)
def test_a_corrected_device_is_accepted_without_intervention_at_the_others(fleet: Fleet, tmp_path: Path) -> None:
    devices = [new_device(fleet, tmp_path / name, seed=seed, epsilon=100.0) for seed, name in enumerate("abc")]
    for device in devices:
        configure_device(device, devices, GROUPS["bounds"][1] if device is devices[2] else {})
    with running(*devices) as (one, _, misconfigured):
        until(lambda: count_strangers(one) == 1, "it knows that one device has another task")
        assert misconfigured.end() == 0
        configure_device(devices[2], devices, {})
        with running(devices[2]) as (corrected,):
            until(lambda: count_strangers(one) == 0, "its task is now the same")
            until(lambda: corrected.status()["traffic"]["received"] > 0, "it receives shares")
            assert corrected.status()["task"]["others"] == []
    assert books(devices).are_balanced


@pytest.mark.timeout(400)
def test_a_learner_that_drops_unsent_messages_continues_once_the_other_is_corrected(
    fleet: Fleet, tmp_path: Path
) -> None:
    """Golf takes back a message to a departing peer; the link to a listed peer stays open nevertheless."""
    one, other = (
        new_device(fleet, tmp_path / name, seed=seed, neighbouring="replace-one") for seed, name in enumerate("ab")
    )
    golf: dict[str, dict[str, Any]] = {"learner": {"name": "golf"}, "privacy": {"epsilon": 2.0}}
    one.configure([other.entry()], **golf)
    other.configure([one.entry()], **golf, data={"labels": ["z", "x", "y"]})
    with running(one) as (agent,):
        until(lambda: agent.status()["peers"][0]["unconfirmed"], "a message waits for the absent device")
        with running(other):
            until(lambda: count_strangers(agent) == 1, "it knows that the other device has another task")
            until(lambda: not agent.status()["peers"][0]["unconfirmed"], "pending messages are forgotten")
        other.configure([one.entry()], **golf)
        with running(other) as (corrected,):
            until(lambda: corrected.status()["traffic"]["received"] > 0, "it receives a message")
            until(lambda: agent.status()["traffic"]["received"] > 0, "it sends a message")
        assert not agent.lines("share-stranded")
