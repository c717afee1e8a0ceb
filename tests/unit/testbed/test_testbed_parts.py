"""Faults on messages, the safety catch of noiseless agents, and the arithmetic of reports."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sottovoce.door import PrivacyStatement, Status
from sottovoce.transport import DeliveryFailed, Listener, Peer, Receive
from sottovoce.vault import Budget, Ledger
from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed import process
from sottovoce_lab.testbed.faulty_transport import FaultyTransport, Reach
from sottovoce_lab.testbed.measure import Measures
from sottovoce_lab.testbed.report import AgentReport, Report, Resources, Traffic

from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet
from tests.support.reports import check_report
from tests.support.waiting import PATIENCE

PEER = Peer("p" * 32, "127.0.0.1:1", "p.fleet.internal")


@dataclass
class Counting:
    """A transport that delivers everything; implements sottovoce.transport.Transport."""

    sent: list[bytes] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    @property
    def largest(self) -> int:
        return 2**22

    def reaches(self, address: str) -> bool:
        return bool(address)

    async def start(self, receive: Receive) -> None:
        raise NotImplementedError

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        self.sent.append(message)
        self.meanwhile()
        return b"receipt"

    def listener(self) -> Listener:
        return Listener(3, 1)

    async def stop(self, grace: float) -> None:
        """There is nothing to stop."""


async def attempts(faults: Faults, count: int, seed: int = 1) -> tuple[Counting, int]:
    """How many messages crossed, and how many attempts failed."""
    inner = Counting()
    transport, failed = FaultyTransport(inner, faults, seed, Reach()), 0
    for i in range(count):
        try:
            assert await transport.deliver(PEER, b"%d" % i, 1.0) == b"receipt"
        except DeliveryFailed as failure:
            failed += failure.cause == "injected"
    return inner, failed


async def test_messages_and_confirmations_are_lost_as_often_as_asked() -> None:
    inner, failed = await attempts(Faults(loss=0.3), 2000)
    assert len(inner.sent) / 2000 == pytest.approx(0.7, abs=0.04)
    assert failed / 2000 == pytest.approx(1 - 0.7**2, abs=0.04)


async def test_messages_are_repeated_as_often_as_asked_and_with_the_same_bytes() -> None:
    inner, failed = await attempts(Faults(duplicate=0.2), 1000)
    assert failed == 0
    assert len(inner.sent) / 1000 == pytest.approx(1.2, abs=0.05)
    assert sorted(set(map(int, inner.sent))) == list(range(1000))


async def test_the_same_seed_injures_the_same_messages() -> None:
    faults = Faults(loss=0.3, duplicate=0.3)
    assert (await attempts(faults, 100))[0].sent == (await attempts(faults, 100))[0].sent
    assert (await attempts(faults, 100))[0].sent != (await attempts(faults, 100, seed=2))[0].sent


async def test_messages_are_late_by_as_much_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await attempts(Faults(delay=0.05, delay_spread=0.02), 500)
    assert 0.03 <= min(delays) < 0.035
    assert 0.065 < max(delays) <= 0.07


async def test_messages_held_back_are_overtaken_by_their_own_retries_and_still_arrive() -> None:
    inner = Counting()
    transport, held, straight = FaultyTransport(inner, Faults(reorder=0.5), 1, Reach()), list[str](), 0
    for i in range(40):
        while len(set(inner.sent)) == i:  # which what was held back may end, too
            try:
                await transport.deliver(PEER, b"%d" % i, 0.05)
                straight += 1
            except DeliveryFailed as failure:
                held.append(str(failure))
    assert len(held) > 10
    assert all("held back on purpose (--fault reorder)" in failure for failure in held)
    everything = asyncio.Event()
    inner.meanwhile = lambda: everything.set() if len(inner.sent) == straight + len(held) else None
    inner.meanwhile()
    await asyncio.wait_for(everything.wait(), PATIENCE)
    arrived = [int(message) for message in inner.sent]
    assert arrived != sorted(arrived)


async def test_what_is_still_held_back_at_the_end_is_lost() -> None:
    inner = Counting()
    transport = FaultyTransport(inner, Faults(reorder=1.0), 1, Reach())
    with pytest.raises(DeliveryFailed):
        await transport.deliver(PEER, b"late", 3600.0)
    await transport.stop(0.0)
    assert inner.sent == []


async def test_nothing_crosses_a_partition_in_either_direction_until_it_ends() -> None:
    reach, answers = Reach(), list[bytes]()
    inner = Counting()
    transport = FaultyTransport(inner, Faults(), 1, reach)
    other = Peer("q" * 32, "127.0.0.1:2", "q.fleet.internal")
    reach.lost = frozenset([PEER.id])
    with pytest.raises(DeliveryFailed, match=r"the message was cut off on purpose \(--fault partition\)"):
        await transport.deliver(PEER, b"1", 1.0)
    answers.append(await transport.deliver(other, b"2", 1.0))
    reach.lost = frozenset()
    answers.append(await transport.deliver(PEER, b"3", 1.0))
    assert inner.sent == [b"2", b"3"]
    inner.meanwhile = lambda: setattr(reach, "lost", frozenset([PEER.id]))
    with pytest.raises(DeliveryFailed, match="the answer was cut off"):
        await transport.deliver(PEER, b"4", 1.0)
    assert inner.sent == [b"2", b"3", b"4"]
    assert answers == [b"receipt"] * 2


def test_the_listener_is_the_real_one() -> None:
    assert FaultyTransport(Counting(), Faults(), 0, Reach()).listener() == Listener(3, 1)


@pytest.mark.parametrize("name, listen", [("by-hand", "127.0.0.1"), ("testbed-1", "0.0.0.0")])
def test_no_noise_is_for_a_throw_away_fleet_on_loopback_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, listen: str
) -> None:
    device = _noiseless(tmp_path, name, listen)
    assert process.main([str(device.config), "0"]) == 3
    assert "are allowed only in a testbed's own fleet on 127.0.0.1" in capsys.readouterr().err


def _noiseless(directory: Path, name: str, listen: str) -> Device:
    """A device whose ledger promises nothing, as only a testbed makes one."""
    device = new_device(new_fleet(directory / "fleet", name), directory / "a")
    device.ledger.unlink()
    Ledger.create(device.ledger, device.id, Budget(None, 1e-5, "record", "add-remove"))
    state = {"agent": {"state": str(device.state)}}
    transport = {"listen": f"{listen}:{device.port}", "announce": device.address}
    return device.configure(**state, privacy={"epsilon": math.inf}, transport=transport)


def statement(epsilon: float | None) -> PrivacyStatement:
    return PrivacyStatement(
        unit="record",
        neighbouring="add-remove",
        mechanism="m",
        composition="c",
        epsilon=epsilon,
        delta=None if epsilon is None else 1e-5,
        threat_model="t",
        status=Status.NONE if epsilon is None else Status.PROVED,
        reason="r",
    )


def report(epsilon: float | None, *agents: AgentReport) -> Report:
    words = ("learner", "fidelity", "model", "transport", "topology", "data", "partition", "version")
    run = {**dict.fromkeys(words, "x"), "agents": len(agents), "seed": 0, "cycles": 5, "wall_s": 1.0}
    return Report(
        run=run,
        statement=statement(epsilon),
        final=Measures(0.5, 0.4, 0.6, 1.0),
        curve=[],
        traffic=Traffic(10, 100, 150),
        resources=Resources(),
        agents=list(agents),
        ledgers_agree=True,
        faults=[],
    )


def test_what_was_spent_at_most_is_the_most_that_any_ledger_says() -> None:
    document = report(2.0, AgentReport("a", True, 5, 1, 1.5, 3), AgentReport("b", False, 2, 1, 1.9, 4)).document()
    check_report(document, agents=2)
    assert (document["privacy"]["spent_epsilon_max"], document["privacy"]["releases"]) == (1.9, 7)
    assert document["traffic"]["wire_bytes_per_agent_cycle"] == pytest.approx(150 / 7)


def test_where_nothing_is_promised_nothing_is_called_spent() -> None:
    document = report(None, AgentReport("a", True, 5, 1, None, 3)).document()
    check_report(document, agents=1)
    assert document["privacy"]["spent_epsilon_max"] is None


def test_a_device_whose_turn_never_came_does_not_hide_what_the_others_were_charged() -> None:
    document = report(2.0, AgentReport("a", True, 5, 1, None, 3), AgentReport("b", True, 5, 1, 0.0, 0)).document()
    assert document["privacy"]["spent_epsilon_max"] is None


def test_a_fleet_that_never_began_a_cycle_has_used_no_bytes_for_one() -> None:
    document = report(2.0, AgentReport("a", False, 0, 1, 0.0, 0)).document()
    assert document["traffic"]["wire_bytes_per_agent_cycle"] == 0.0
