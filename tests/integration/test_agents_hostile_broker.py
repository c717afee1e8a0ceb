"""Agents whose broker loses, repeats, reorders, alters and forges: the agents learn, and their books balance."""

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from sottovoce.net.wire.v1.mqtt_pb2 import Frame

from tests.support.books import books, spending
from tests.support.devices import Device, accuracy, new_device
from tests.support.fleets import new_fleet
from tests.support.hostile_broker import HostileBroker
from tests.support.mischief import Mischief
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

pytestmark = pytest.mark.process

SEED = 20_17


@pytest.fixture
def broker() -> Iterator[HostileBroker]:
    with HostileBroker() as hostile:
        yield hostile


@pytest.fixture
def agents(tmp_path: Path, broker: HostileBroker) -> Iterator[list[AgentProcess]]:
    """Four agents that reach each other only through the broker, each configured with the others as peers."""
    fleet = new_fleet(tmp_path / "fleet")
    created = [new_device(fleet, tmp_path / name, seed=seed, epsilon=100.0) for seed, name in enumerate("abcd")]
    for device in created:
        configure_device(broker, device, created)
    broker.judge = Mischief(SEED)
    with running(*created) as processes:
        yield processes


def configure_device(broker: HostileBroker, device: Device, fleet: list[Device]) -> None:
    """Write a device's configuration with short retry pauses, because many messages are lost."""
    device.configure(
        [other.entry(address="mqtt:main") for other in fleet if other is not device],
        privacy={"epsilon": 100.0},
        transport={"use": ["mqtt"], "mqtt": {"url": broker.url}, "timeout": 1.5},
    )


def test_a_fleet_learns_and_its_books_balance_under_a_hostile_broker(
    agents: list[AgentProcess], broker: HostileBroker
) -> None:
    until(lambda: all(agent.status()["steps_done"] >= 5 for agent in agents), "some steps are complete")
    third = agents[2]
    assert third.end() == 0
    past = list(broker.captured)
    with running(third.device) as (restarted,):
        for start in range(0, len(past), 100):
            broker.inject(*past[start : start + 100])
        for agent in (*agents[:2], restarted, agents[3]):
            until(lambda agent=agent: agent.status()["state"] == "mixing", "every private step is complete")  # type: ignore[misc]
        broker.inject(*past[:200], *(client.will for client in list(broker.clients.values()) if client.will))
        judge = broker.judge
        assert isinstance(judge, Mischief)
        before = [agent.status()["traffic"]["received"] for agent in agents[:2]]
        until(
            lambda: all(
                agent.status()["traffic"]["received"] > n + 5 for agent, n in zip(agents, before, strict=False)
            ),
            "they continue",
        )
        until(lambda: all(accuracy(agent.model()) > 0.9 for agent in (*agents[:2], restarted)), "they have learnt")
        status = restarted.status()
        assert status["refused"]["handshakes"] > 20
        assert status["refused"]["messages"] == {}
        assert {agent.end() for agent in (*agents[:2], restarted, agents[3])} == {0}
    created = [agent.device for agent in agents]
    assert books(created).are_balanced
    assert {(spent.charges, spent.releases) for spent in map(spending, created)} == {(20, 20)}
    assert all(count >= 10 for count in judge.done.values()), judge.done
    for agent in agents:
        assert "Traceback" not in agent.log()
        if agent is not third:  # logged twice, because it started twice
            assert all(
                agent.logged_line("frame-refused", f"reason={why} ") for why in ("replayed", "forged", "malformed")
            )
    observed = [message.payload for message in broker.captured]
    assert not any(words in payload for payload in observed for words in (b"push-sum", b"ledger-head", b"share"))
    sealed = b"".join(Frame.FromString(raw).sealed for raw in observed if not raw.startswith(b"\x0a\x07by-hand"))
    assert len(sealed) > 20_000
    assert len(zlib.compress(sealed)) > len(sealed)  # only the recipient can decrypt it
