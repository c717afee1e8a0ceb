"""Message faults, the safeguard for noise-free agents, and the reports' arithmetic."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sottovoce.net.transports import DeliveryFailed, Listener, Peer, Receive
from sottovoce.privacy.api import PrivacyStatement, Status
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed import process
from sottovoce_lab.testbed.baselines import Baselines
from sottovoce_lab.testbed.faulty_transport import FaultyTransport, Reachability
from sottovoce_lab.testbed.measure import Metrics
from sottovoce_lab.testbed.report import AgentReport, Report, Resources, Traffic

from tests.support.devices import Device, new_device
from tests.support.fleets import new_fleet
from tests.support.reports import check_report
from tests.support.waiting import TIMEOUT

PEER = Peer("p" * 32, "127.0.0.1:1", "p.fleet.internal")


@dataclass
class Counting:
    """A transport that delivers everything; implements sottovoce.net.transports.Transport."""

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
        """Do nothing."""


async def count_attempts(faults: Faults, count: int, seed: int = 1) -> tuple[Counting, int]:
    """Return how many messages arrived, and how many attempts failed."""
    inner = Counting()
    transport, failed = FaultyTransport(inner, faults, seed, Reachability()), 0
    for i in range(count):
        try:
            assert await transport.deliver(PEER, b"%d" % i, 1.0) == b"receipt"
        except DeliveryFailed as failure:
            failed += failure.cause == "injected"
    return inner, failed


async def test_messages_and_confirmations_are_lost_at_the_given_rate() -> None:
    inner, failed = await count_attempts(Faults(loss=0.3), 2000)
    assert len(inner.sent) / 2000 == pytest.approx(0.7, abs=0.04)
    assert failed / 2000 == pytest.approx(1 - 0.7**2, abs=0.04)


async def test_messages_are_repeated_at_the_given_rate_with_the_same_bytes() -> None:
    inner, failed = await count_attempts(Faults(duplicate=0.2), 1000)
    assert failed == 0
    assert len(inner.sent) / 1000 == pytest.approx(1.2, abs=0.05)
    assert sorted(set(map(int, inner.sent))) == list(range(1000))


async def test_the_same_seed_affects_the_same_messages() -> None:
    faults = Faults(loss=0.3, duplicate=0.3)
    assert (await count_attempts(faults, 100))[0].sent == (await count_attempts(faults, 100))[0].sent
    assert (await count_attempts(faults, 100))[0].sent != (await count_attempts(faults, 100, seed=2))[0].sent


async def test_messages_are_delayed_by_the_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []

    async def record(seconds: float) -> None:
        delays.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", record)
    await count_attempts(Faults(delay=0.05, delay_spread=0.02), 500)
    assert 0.03 <= min(delays) < 0.035
    assert 0.065 < max(delays) <= 0.07


async def test_delayed_messages_are_overtaken_by_their_own_retries_and_still_arrive() -> None:
    inner = Counting()
    transport, stored, straight = FaultyTransport(inner, Faults(reorder=0.5), 1, Reachability()), list[str](), 0
    for i in range(40):
        while len(set(inner.sent)) == i:  # the delayed message may end as well
            try:
                await transport.deliver(PEER, b"%d" % i, 0.05)
                straight += 1
            except DeliveryFailed as failure:
                stored.append(str(failure))
    assert len(stored) > 10
    assert all("--fault reorder" in failure for failure in stored)
    everything = asyncio.Event()
    inner.meanwhile = lambda: everything.set() if len(inner.sent) == straight + len(stored) else None
    inner.meanwhile()
    await asyncio.wait_for(everything.wait(), TIMEOUT)
    arrived = [int(message) for message in inner.sent]
    assert arrived != sorted(arrived)


async def test_messages_still_delayed_at_the_end_are_lost() -> None:
    inner = Counting()
    transport = FaultyTransport(inner, Faults(reorder=1.0), 1, Reachability())
    with pytest.raises(DeliveryFailed):
        await transport.deliver(PEER, b"late", 3600.0)
    await transport.stop(0.0)
    assert inner.sent == []


async def test_nothing_crosses_a_partition_in_either_direction_until_it_ends() -> None:
    reach, answers = Reachability(), list[bytes]()
    inner = Counting()
    transport = FaultyTransport(inner, Faults(), 1, reach)
    other = Peer("q" * 32, "127.0.0.1:2", "q.fleet.internal")
    reach.unreachable_peers = frozenset([PEER.id])
    with pytest.raises(DeliveryFailed, match="--fault partition"):
        await transport.deliver(PEER, b"1", 1.0)
    answers.append(await transport.deliver(other, b"2", 1.0))
    reach.unreachable_peers = frozenset()
    answers.append(await transport.deliver(PEER, b"3", 1.0))
    assert inner.sent == [b"2", b"3"]
    inner.meanwhile = lambda: setattr(reach, "unreachable_peers", frozenset([PEER.id]))
    with pytest.raises(DeliveryFailed, match=r"answer.*cut"):
        await transport.deliver(PEER, b"4", 1.0)
    assert inner.sent == [b"2", b"3", b"4"]
    assert answers == [b"receipt"] * 2


def test_the_listener_belongs_to_the_real_transport() -> None:
    assert FaultyTransport(Counting(), Faults(), 0, Reachability()).listener() == Listener(3, 1)


@pytest.mark.parametrize("name, listen", [("by-hand", "127.0.0.1"), ("testbed-1", "0.0.0.0")])
def test_noise_free_agents_run_only_in_a_temporary_fleet_on_loopback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, listen: str
) -> None:
    device = _noiseless(tmp_path, name, listen)
    assert process.main([str(device.config), "0"]) == 3
    assert "are allowed only in a testbed's own fleet on 127.0.0.1" in capsys.readouterr().err


def _noiseless(directory: Path, name: str, listen: str) -> Device:
    """Make a device whose ledger guarantees nothing, as only a testbed does."""
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
        final=Metrics(0.5, 0.4, 0.6, 1.0),
        curve=[],
        traffic=Traffic(10, 100, 150),
        resources=Resources(),
        agents=list(agents),
        ledgers_agree=True,
        faults=[],
    )


def test_the_maximum_spent_is_the_highest_value_in_any_ledger() -> None:
    document = report(2.0, AgentReport("a", True, 5, 1, 1.5, 3), AgentReport("b", False, 2, 1, 1.9, 4)).document()
    check_report(document, agents=2)
    assert (document["privacy"]["spent_epsilon_max"], document["privacy"]["releases"]) == (1.9, 7)
    assert document["traffic"]["wire_bytes_per_agent_cycle"] == pytest.approx(150 / 7)


def test_without_a_guarantee_nothing_is_reported_as_spent() -> None:
    document = report(None, AgentReport("a", True, 5, 1, None, 3)).document()
    check_report(document, agents=1)
    assert document["privacy"]["spent_epsilon_max"] is None


def test_a_device_without_a_cycle_does_not_hide_the_others_charges() -> None:
    document = report(2.0, AgentReport("a", True, 5, 1, None, 3), AgentReport("b", True, 5, 1, 0.0, 0)).document()
    assert document["privacy"]["spent_epsilon_max"] is None


@pytest.mark.parametrize("releases", [0, 1])
def test_the_noise_is_not_the_reason_if_no_device_released_anything(releases: int) -> None:
    some = report(2.0, AgentReport("a", True, 5, 1, 0.0, 0), AgentReport("b", True, 5, 1, 0.0, releases))
    some.baselines = lambda: Baselines(0.3, 0.9)
    warnings = " ".join(some.document()["warnings"])
    assert ("query-refused" in warnings) is not bool(releases)
    assert ("the noise costs more" in warnings) is bool(releases)


def test_a_fleet_without_cycles_has_no_bytes_per_cycle() -> None:
    document = report(2.0, AgentReport("a", False, 0, 1, 0.0, 0)).document()
    assert document["traffic"]["wire_bytes_per_agent_cycle"] == 0.0
