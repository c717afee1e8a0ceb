"""Devices of one fleet that learn different tasks: they remain peers, and no model crosses."""

from pathlib import Path
from typing import Any

import pytest
from sottovoce.identity import Fleet

from tests.support.books import books
from tests.support.devices import Device, accuracy, new_device
from tests.support.processes import AgentProcess, running, sottovoce
from tests.support.waiting import until

NAMED = {"columns": ["a", "b", "c", "d"], "labels": ["x", "y", "z"]}
BASE: dict[str, dict[str, Any]] = {"data": {"bounds": [0.0, 1.0], **NAMED}, "learner": {}}
ASKED_AGAIN = 200.0  # seconds: who could not be asked for its document is asked when it next tells its ledger head
GROUPS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "base": ("", {}),
    "bounds": ("data.bounds [[0.0],[1000.0]] where", {"data": {"bounds": [0.0, 1000.0]}}),
    "labels": ('data.labels ["z","x","y"] where', {"data": {"labels": ["z", "x", "y"]}}),
    "columns": ('data.columns ["b","a","c","d"] where', {"data": {"columns": ["b", "a", "c", "d"]}}),
    "rate": ("learner.step_size 2000.0 where", {"learner": {"step_size": 2000.0}}),
}


def configured(device: Device, others: list[Device], changes: dict[str, dict[str, Any]]) -> Device:
    tables = {name: {**table, **changes.get(name, {})} for name, table in BASE.items()}
    peers = [other.entry() for other in others if other.id != device.id]
    return device.configure(peers, privacy={"epsilon": 100.0}, **tables)


@pytest.fixture(scope="module")
def groups(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Device]]:
    """Two devices of each group, all of which list all others."""
    directory = tmp_path_factory.mktemp("tasks")
    made = {
        name: [new_device(fleet, directory / f"{name}-{i}", seed=i, epsilon=100.0) for i in range(2)] for name in GROUPS
    }
    everybody = [device for devices in made.values() for device in devices]
    for name, devices in made.items():
        for device in devices:
            configured(device, everybody, GROUPS[name][1])
    return made


def apart(agent: AgentProcess) -> list[tuple[str, int]]:
    """For each other task, what differs, and how many devices have it."""
    return [("; ".join(other["differences"]), other["devices"]) for other in agent.status()["task"]["others"]]


def strangers(agent: AgentProcess) -> int:
    """How many devices have another task."""
    return sum(devices for _, devices in apart(agent))


@pytest.mark.timeout(900)
def test_no_model_crosses_and_everybody_says_what_differs(groups: dict[str, list[Device]]) -> None:
    devices = [device for group in groups.values() for device in group]
    with running(*devices) as agents:
        by_id = {agent.device.id: agent for agent in agents}
        for agent in agents:
            until(lambda agent=agent: agent.status()["state"] == "mixing", "every private step is done")  # type: ignore[misc]
        base = by_id[groups["base"][0].id]
        until(lambda: [devices for _, devices in apart(base)] == [2, 2, 2, 2], "it knows of all others", ASKED_AGAIN)
        for name, (said, _) in GROUPS.items():
            if said:
                until(
                    lambda said=said: any(one.startswith(said) for one, _ in apart(base)),  # type: ignore[misc]
                    f"it says {said}",
                    ASKED_AGAIN,
                )
            own = by_id[groups[name][0].id]
            until(lambda own=own: strangers(own) == 8, "eight devices are of another task", ASKED_AGAIN)  # type: ignore[misc]
        assert accuracy(base.model()) > 0.8
        lines = sottovoce("agent", "status", "--state", base.device.state).stdout.splitlines()
        assert sum(line.startswith("apart    2 devices of another task: ") for line in lines) == 4
        found = sottovoce("doctor", "--config", base.device.config).stdout
        assert "this device does not mix with 2 devices, because their task differs" in found
        assert len(base.lines("another-task")) == 4, "each is said once"
        for agent in agents:
            assert agent.end() == 0
    for name, group in groups.items():
        assert books(group).balance, f"{name}: the mass of the two is what they joined with, to the last bit"


@pytest.mark.timeout(400)
def test_a_device_that_is_corrected_is_taken_in_without_a_person_at_the_others(fleet: Fleet, tmp_path: Path) -> None:
    devices = [new_device(fleet, tmp_path / name, seed=seed, epsilon=100.0) for seed, name in enumerate("abc")]
    for device in devices:
        configured(device, devices, GROUPS["bounds"][1] if device is devices[2] else {})
    with running(*devices) as (one, _, wrong):
        until(lambda: strangers(one) == 1, "it knows that one is wrong")
        assert wrong.end() == 0
        configured(devices[2], devices, {})
        with running(devices[2]) as (right,):
            until(lambda: strangers(one) == 0, "its task is the same now")
            until(lambda: right.status()["traffic"]["received"] > 0, "it is sent shares")
            assert right.status()["task"]["others"] == []
    assert books(devices).balance


@pytest.mark.timeout(400)
def test_a_learner_that_forgets_what_was_on_its_way_goes_on_when_the_other_is_corrected(
    fleet: Fleet, tmp_path: Path
) -> None:
    """Golf, which takes back a message to a peer that leaves: the way to a listed peer stays open all the same."""
    one, other = (
        new_device(fleet, tmp_path / name, seed=seed, neighbouring="replace-one") for seed, name in enumerate("ab")
    )
    golf: dict[str, dict[str, Any]] = {"learner": {"name": "golf"}, "privacy": {"epsilon": 2.0}}
    one.configure([other.entry()], **golf)
    other.configure([one.entry()], **golf, data={"labels": ["z", "x", "y"]})
    with running(one) as (agent,):
        until(lambda: agent.status()["peers"][0]["unconfirmed"], "a message waits for who is not there")
        with running(other):
            until(lambda: strangers(agent) == 1, "it knows that the other is wrong")
            until(lambda: not agent.status()["peers"][0]["unconfirmed"], "what was on its way is forgotten")
        other.configure([one.entry()], **golf)
        with running(other) as (right,):
            until(lambda: right.status()["traffic"]["received"] > 0, "it is sent something")
            until(lambda: agent.status()["traffic"]["received"] > 0, "and sends")
        assert not agent.lines("share-stranded")
