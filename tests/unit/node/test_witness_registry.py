"""Witnesses of a ledger's head: appointed before any charge, notified of every charge, queried at every start."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sottovoce.errors import LedgerError
from sottovoce.fleet import Identity
from sottovoce.net.transports import Peer
from sottovoce.node.gossip import ledger_head_gossip as module, witnesses as witness_registry
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.host import Host
from sottovoce.privacy.vault import Budget, Ledger, Witness
from sottovoce_operator.fleet import create_fleet, enrol

from tests.support.heads import Past, head_gossip, peer_at
from tests.support.hosts import StubHost
from tests.support.waiting import TIMEOUT, let_others_run


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    directory = tmp_path_factory.mktemp("fleet")
    fleet = create_fleet(directory / "authority", "fleet")
    return [enrol(fleet, directory / str(i)) for i in range(17)]


class Fleet:
    """A device and sixteen others, all of which it knows; some may be away."""

    def __init__(self, identities: list[Identity], directory: Path) -> None:
        self.device, *self.others = identities
        self.village: dict[str, LedgerHeadGossip] = {}
        self.away: dict[str, LedgerHeadGossip] = {}
        self.opened: list[LedgerHeadGossip] = []
        self.gone: set[str] = set()
        self.linked = len(self.others)
        self.directory = directory
        for number, other in enumerate(self.others):
            self.village[f"at-{number}"] = self._open(StubHost(other), Past(), f"peer-{number}")

    def start(self, past: Past, needed: int = 1) -> LedgerHeadGossip:
        return self._open(StubHost(self.device, self.peers, gone=self.gone), past, f"device-{len(self.opened)}", needed)

    def peers(self) -> list[Peer]:
        return [peer_at(f"at-{number}", other) for number, other in enumerate(self.others[: self.linked])]

    def leave(self, *nodes: str) -> None:
        for number, other in enumerate(self.others):
            if other.node_id in nodes and f"at-{number}" in self.village:
                self.away[f"at-{number}"] = self.village.pop(f"at-{number}")

    def back(self) -> None:
        self.village |= self.away
        self.away.clear()

    async def live(self, device: LedgerHeadGossip, past: Past, charges: int) -> None:
        """Charge and release this many times, as an agent does."""
        for _ in range(charges):
            assert await asyncio.wait_for(device.wait_for_permission(), TIMEOUT)
            past.charges += 1
            device.advance(past.tip())
            await device.notify_witnesses()

    def _open(self, host: Host, past: Past, book: str, needed: int = 1) -> LedgerHeadGossip:
        gossip = head_gossip(self.village, host, past, self.directory / book, needed=needed)
        self.opened.append(gossip)
        return gossip


@pytest.fixture(autouse=True)
def _at_every_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOTIFY_INTERVAL_SECONDS", 0.0)


@pytest.fixture
def fleet(identities: list[Identity], tmp_path: Path) -> Iterator[Fleet]:
    new_fleet = Fleet(identities, tmp_path)
    yield new_fleet
    for item in new_fleet.opened:
        item.close()


async def first(fleet: Fleet, device: LedgerHeadGossip) -> None:
    """At the first start, any peer's answer suffices."""
    await device.send_head(fleet.peers()[0])


async def test_witnesses_are_appointed_before_first_charge_and_notified_of_each(fleet: Fleet) -> None:
    past = Past()
    device = fleet.start(past)
    await first(fleet, device)
    assert await device.wait_for_permission()
    assert len(past.named) == witness_registry.WITNESSES
    await fleet.live(device, past, 20)
    reported = [device.detector.acknowledged_head(witness.node) for witness in past.named]
    assert sum(head == device.head for head in reported) >= witness_registry.NOTIFIED_PER_CHARGE
    assert min(head.charges for head in reported if head) >= 20 - witness_registry.WITNESSES, "all of them in turn"


@pytest.mark.parametrize("charges", [8, 39])
async def test_witnesses_detect_a_restored_copy(fleet: Fleet, charges: int) -> None:
    past = Past()
    device = fleet.start(past)
    await first(fleet, device)
    await fleet.live(device, past, charges)
    image = replace(past)
    await fleet.live(device, past, 40 - charges)
    with pytest.raises(LedgerError, match="older"):
        await fleet.start(image).wait_for_permission()


async def test_peer_without_head_confirms_nothing_after_the_first_charge(fleet: Fleet) -> None:
    past = Past()
    device = fleet.start(past)
    await first(fleet, device)
    await fleet.live(device, past, 8)
    image = replace(past)
    await fleet.live(device, past, 8)
    fleet.leave(*(witness.node for witness in past.named))
    restored = fleet.start(image)
    strangers = [peer for peer in fleet.peers() if peer.address in fleet.village]
    assert strangers
    for stranger in strangers:
        if fleet.village[stranger.address]._head_store.get_head(fleet.device.node_id) is None:
            await restored.send_head(stranger)
    waiting = asyncio.create_task(restored.wait_for_permission())
    await let_others_run(50)
    assert not waiting.done()
    assert "witnesses of this ledger" in restored._waiting_reason()
    fleet.back()
    with pytest.raises(LedgerError):
        await asyncio.wait_for(waiting, TIMEOUT)


async def test_one_reachable_witness_suffices_if_the_ledger_was_not_restored(fleet: Fleet) -> None:
    past = Past()
    device = fleet.start(past)
    await first(fleet, device)
    await fleet.live(device, past, 12)
    fleet.leave(*(witness.node for witness in past.named[1:]))
    restarted = fleet.start(past)
    assert await asyncio.wait_for(restarted.wait_for_permission(), TIMEOUT)
    await fleet.live(restarted, past, 3)


async def test_departed_witnesses_are_replaced_and_new_ones_notified(fleet: Fleet) -> None:
    past = Past()
    device = fleet.start(past)
    await first(fleet, device)
    await fleet.live(device, past, 5)
    remaining = {witness.node for witness in past.named[:2]}
    fleet.gone |= remaining
    fleet.leave(*remaining)
    await fleet.live(device, past, 2)
    assert not remaining & {witness.node for witness in past.named}
    assert len(past.named) == witness_registry.WITNESSES
    assert all(device.detector.acknowledged_head(witness.node) for witness in past.named[-2:])


async def test_witness_is_replaced_after_days_of_absence(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    past = Past()
    device = fleet.start(past)
    await first(fleet, device)
    await fleet.live(device, past, 1)
    silent = past.named[0].node
    fleet.leave(silent)
    monkeypatch.setattr(witness_registry, "REPLACE_AFTER_SECONDS", 0.0)
    await device.witness_registry.appoint(device.is_due)
    assert silent in {witness.node for witness in past.named}, "no attempt to reach it was made"
    past.charges += 1
    device.advance(past.tip())
    await device.witness_registry.notify_witnesses(device.is_due, witness_registry.WITNESSES)
    await device.witness_registry.appoint(device.is_due)
    assert silent not in {witness.node for witness in past.named}
    assert len(past.named) == witness_registry.WITNESSES


async def test_a_head_sent_since_the_start_is_no_evidence(fleet: Fleet) -> None:
    """The peer only repeats the device's own message."""
    device = fleet.start(Past(8))
    for _ in range(3):
        await device.send_head(fleet.peers()[0])
    assert not device.detector.may_release


async def test_small_fleet_has_as_many_witnesses_as_devices(fleet: Fleet) -> None:
    past = Past()
    device, fleet.linked = fleet.start(past), 1
    await first(fleet, device)
    await fleet.live(device, past, 4)
    assert [witness.node for witness in past.named] == [fleet.others[0].node_id]
    fleet.linked = len(fleet.others)
    assert await asyncio.wait_for(fleet.start(past).wait_for_permission(), TIMEOUT)


def test_ledger_stores_witnesses(tmp_path: Path) -> None:
    budget = Budget(2.0, 1e-5, "record", "add-remove")
    Ledger.create(tmp_path / "ledger.db", "meter-17", budget)
    ledger = Ledger.open(tmp_path / "ledger.db", "meter-17", budget)
    assert ledger.witnesses.load_newest() == ()
    for names in (("a", "b"), ("b", "c")):
        ledger.witnesses.appoint(tuple(Witness(name, (f"{name}:1", "mqtt:home")) for name in names))
    ledger.close()
    reopened = Ledger.read(tmp_path / "ledger.db")
    assert [witness.node for witness in reopened.witnesses.load_newest()] == ["b", "c"]
    assert reopened.witnesses.load_newest()[0].endpoints == ("b:1", "mqtt:home")
    reopened.close()
