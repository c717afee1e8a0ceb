"""Peer sampling among real agents: from one seed each, all find one another, even after restarts and moves."""

import contextlib
import signal
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.devices import Device, free_port, new_device
from tests.support.processes import AGREED, AgentProcess, running
from tests.support.waiting import until

pytestmark = pytest.mark.process

SAMPLED = {"sampling": "newscast", "period": 0.3}
UNHURRIED = {"sampling": "newscast", "period": 2.0}  # an entry lasts eight periods, however busy the machine is


def sampled(device: Device, seeds: Iterable[Device], membership: dict[str, object] | None = None) -> Device:
    """Configure a device that knows only its seeds and soon only mixes."""
    learner = {"period": 0.5, "steps": 1}
    return device.configure([seed.entry() for seed in seeds], membership=membership or SAMPLED, learner=learner)


def view(agent: AgentProcess) -> dict[str, str]:
    """Return the devices that an agent knows, and their addresses."""
    return {entry["id"]: entry["address"] for entry in agent.status()["membership"]["view"]}


def has_found(agent: AgentProcess, others: Iterable[Device]) -> bool:
    known = view(agent)
    return all(known.get(other.id) == other.address for other in others)


def remembers(device: Device) -> bool:
    """Check whether the device's address book has an entry; it may know others only from their requests."""
    with contextlib.closing(sqlite3.connect(f"file:{device.state / 'peers.db'}?mode=ro", uri=True)) as book:
        return bool(book.execute("SELECT 1 FROM contact LIMIT 1").fetchall())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("many", [12, pytest.param(30, marks=pytest.mark.soak)])
def test_agents_with_one_seed_each_find_all_others(fleet: Fleet, tmp_path: Path, many: int) -> None:
    """The seeds form a ring, in which every agent has one seed and is one."""
    devices = [new_device(fleet, tmp_path / f"d{i:02}", records=3) for i in range(many)]
    for i, device in enumerate(devices):
        sampled(device, [devices[(i + 1) % many]], UNHURRIED)
    with running(*devices) as agents:
        for agent in agents:
            others = [device for device in devices if device is not agent.device]
            until(lambda agent=agent, others=others: has_found(agent, others), "it knows all other devices", 120.0)  # type: ignore[misc]
        for agent in agents:
            until(lambda agent=agent: agent.status()["traffic"]["received"] > 0, "it learns from others", 120.0)  # type: ignore[misc]
            status = agent.status()
            assert len(status["peers"]) >= 6
            assert status["membership"]["refused"] == {}


def test_an_agent_that_moved_is_found_at_its_new_address(fleet: Fleet, tmp_path: Path) -> None:
    first, second, third = (new_device(fleet, tmp_path / name, records=3) for name in "abc")
    sampled(first, [second])
    sampled(second, [third])
    sampled(third, [first])
    with running(first, second, third) as agents:
        for agent in agents:
            others = [device for device in (first, second, third) if device is not agent.device]
            until(lambda agent=agent, others=others: has_found(agent, others), "it knows both others")  # type: ignore[misc]
        until(lambda: remembers(third), "a peer has answered, so its address book is not empty")
        agents[2].end(signal.SIGKILL)
        moved = sampled(replace(third, port=free_port()), [])  # it has an address book instead of a seed
        with running(moved) as (back,):
            until(lambda: has_found(back, (first, second)), "it found its fleet again")
            for agent in agents[:2]:
                until(lambda agent=agent: view(agent).get(third.id) == moved.address, "its new address is known")  # type: ignore[misc]


def test_two_agents_with_only_a_seed_agree(fleet: Fleet, tmp_path: Path) -> None:
    one, other = (new_device(fleet, tmp_path / name, seed=seed) for seed, name in enumerate("ab"))
    learner = {"period": 0.05, "steps": 20}
    one.configure([], membership=SAMPLED, learner=learner)
    other.configure([one.entry()], membership=SAMPLED, learner=learner)
    with running(one, other) as agents:
        for agent in agents:
            until(lambda agent=agent: agent.status()["state"] == "mixing", "every private step is complete")  # type: ignore[misc]
        until(lambda: np.abs(agents[0].model() - agents[1].model()).max() < AGREED, "both have the same model")


def test_an_agent_with_static_peers_answers_no_exchange(fleet: Fleet, tmp_path: Path) -> None:
    static, curious = (new_device(fleet, tmp_path / name, records=3) for name in "ab")
    static.configure([])
    sampled(curious, [static])
    with running(static, curious) as agents:
        until(lambda: agents[0].status()["refused"]["messages"].get("membership"), "the exchange is refused")
        until(lambda: agents[1].status()["membership"]["exchanges"].get("failed"), "the refusal is counted")
        assert view(agents[1]) == {}


@pytest.mark.parametrize("left", ["peers.db", "boots"])
def test_a_lost_cache_has_no_effect(fleet: Fleet, tmp_path: Path, left: str) -> None:
    one, other = (new_device(fleet, tmp_path / name, records=3) for name in "ab")
    sampled(one, [other])
    sampled(other, [one])
    with running(one, other) as agents:
        until(lambda: has_found(agents[0], [other]), "they know each other")
        agents[1].end()
        (other.state / left).unlink()
        with running(other) as (back,):
            until(lambda: has_found(back, [one]), "they know each other again")
            until(lambda: has_found(agents[0], [other]), "on both sides")


def test_an_unreachable_seed_is_named_with_the_reason(fleet: Fleet, tmp_path: Path) -> None:
    alone, absent = (new_device(fleet, tmp_path / name, records=3) for name in "ab")
    sampled(alone, [absent])
    with running(alone) as (agent,):
        until(lambda: agent.status()["peers"], "the seed is named")
        (peer,) = agent.status()["peers"]
        assert (peer["id"], peer["address"]) == (absent.id, absent.address)
        assert peer["failures_in_a_row"] >= 1
        assert "nothing listens there" in peer["last_failure"]
        until(lambda: agent.lines("exchange-failed", "cause=unreachable"), "it is logged, after a while")
        assert "nothing listens there" in agent.logged_line("exchange-failed", "cause=unreachable")
        with running(sampled(absent, [])) as (back,):
            until(lambda: has_found(agent, [absent]), "they know each other")
            until(lambda: agent.status()["peers"][0]["failures_in_a_row"] == 0, "there are no failures")
            assert has_found(back, [alone])
