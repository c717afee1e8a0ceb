"""Agents whose broker loses, repeats, reorders, alters and forges: the agents learn, and their books balance."""

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from sottovoce.wire.v1.mqtt_pb2 import Frame

from tests.support.books import books, spending
from tests.support.devices import Device, accuracy, new_device
from tests.support.fleets import new_fleet
from tests.support.hostile_broker import HostileBroker
from tests.support.mischief import Mischief
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

SEED = 20_17


@pytest.fixture
def broker() -> Iterator[HostileBroker]:
    with HostileBroker() as hostile:
        yield hostile


@pytest.fixture
def agents(tmp_path: Path, broker: HostileBroker) -> Iterator[list[AgentProcess]]:
    """Four agents that reach each other through the broker alone, each configured to know the others."""
    fleet = new_fleet(tmp_path / "fleet")
    made = [new_device(fleet, tmp_path / name, seed=seed, epsilon=100.0) for seed, name in enumerate("abcd")]
    for device in made:
        through(broker, device, made)
    broker.judge = Mischief(SEED)
    with running(*made) as processes:
        yield processes


def through(broker: HostileBroker, device: Device, fleet: list[Device]) -> None:
    """Write a device's configuration: it tries again soon, because much is lost."""
    device.configure(
        [other.entry(address="mqtt:main") for other in fleet if other is not device],
        privacy={"epsilon": 100.0},
        transport={"use": ["mqtt"], "mqtt": {"url": broker.url}, "timeout": 1.5},
    )


def test_a_fleet_learns_and_its_books_balance_whatever_the_broker_does(
    agents: list[AgentProcess], broker: HostileBroker
) -> None:
    until(lambda: all(agent.status()["steps_done"] >= 5 for agent in agents), "some steps are done")
    third = agents[2]
    assert third.end() == 0
    past = list(broker.captured)
    with running(third.device) as (again,):
        for start in range(0, len(past), 100):
            broker.inject(*past[start : start + 100])
        for agent in (*agents[:2], again, agents[3]):
            until(lambda agent=agent: agent.status()["state"] == "mixing", "every private step is done")  # type: ignore[misc]
        broker.inject(*past[:200], *(client.will for client in list(broker.clients.values()) if client.will))
        judge = broker.judge
        assert isinstance(judge, Mischief)
        before = [agent.status()["traffic"]["received"] for agent in agents[:2]]
        until(
            lambda: all(
                agent.status()["traffic"]["received"] > n + 5 for agent, n in zip(agents, before, strict=False)
            ),
            "they go on",
        )
        until(lambda: all(accuracy(agent.model()) > 0.9 for agent in (*agents[:2], again)), "they have learnt")
        status = again.status()
        assert status["refused"]["handshakes"] > 20
        assert status["refused"]["messages"] == {}
        assert {agent.end() for agent in (*agents[:2], again, agents[3])} == {0}
    made = [agent.device for agent in agents]
    assert books(made).balance
    assert {(spent.charges, spent.releases) for spent in map(spending, made)} == {(20, 20)}
    assert all(count >= 10 for count in judge.done.values()), judge.done
    for agent in agents:
        assert "Traceback" not in agent.log()
        if agent is not third:  # which has said it twice, since it began twice
            assert all(agent.told("frame-refused", f"reason={why} ") for why in ("replayed", "forged", "malformed"))
    seen = [message.payload for message in broker.captured]
    assert not any(words in payload for payload in seen for words in (b"push-sum", b"ledger-head", b"share"))
    sealed = b"".join(Frame.FromString(raw).sealed for raw in seen if not raw.startswith(b"\x0a\x07by-hand"))
    assert len(sealed) > 20_000
    assert len(zlib.compress(sealed)) > len(sealed)  # to anyone who cannot open it, it is noise
