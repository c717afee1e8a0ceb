"""Gossip of ledger heads: which device may release, which is reported as a copy, and which are notified."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sottovoce.errors import DataError, LedgerError, MessageRefused
from sottovoce.fleet import Identity
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.net.wire import Heads, decode_heads, encode_heads
from sottovoce.node.gossip import ledger_head_gossip as module
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.gossip.ledger_head_store import LedgerHeadStore
from sottovoce.node.waits import Waits
from sottovoce_operator.fleet import create_fleet, enrol

from tests.support.heads import Past, head_gossip, make_head, peer_at
from tests.support.hosts import StubHost
from tests.support.waiting import TIMEOUT, let_others_run

OLDER = "older than the one this device has already reported to others"
COPY = "another copy of this device"


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    directory = tmp_path_factory.mktemp("fleet")
    fleet = create_fleet(directory / "authority", "fleet")
    return [enrol(fleet, directory / str(i)) for i in range(3)]


class Fleet:
    """A device, its copies, and its peers."""

    def __init__(self, identities: list[Identity], directory: Path) -> None:
        self.village: dict[str, LedgerHeadGossip] = {}
        self.opened: list[LedgerHeadGossip] = []
        self.device, *self.peers = identities
        self._directory = directory
        for i, peer in enumerate(self.peers):
            self.village[str(i)] = self._open(peer, Past(), f"peer-{i}")

    def start(self, past: Past, *, book: str | None = None, needed: int = 1, alone: bool = False) -> LedgerHeadGossip:
        """Start the device with this ledger, and with its own head store unless another is given."""
        return self._open(self.device, past, book or f"device-{len(self.opened)}", needed=needed, alone=alone)

    async def send_head(self, device: LedgerHeadGossip, peer: int = 0) -> None:
        await device.send_head(peer_at(str(peer), self.peers[peer]))

    async def release(self, device: LedgerHeadGossip, past: Past, peer: int = 0) -> None:
        """Charge, release, and send the head to a peer."""
        past.charges += 1
        device.advance(past.tip())
        await self.send_head(device, peer)

    def _open(self, who: Identity, past: Past, book: str, *, needed: int = 1, alone: bool = False) -> LedgerHeadGossip:
        host = StubHost(who, self.known)
        gossip = head_gossip(self.village, host, past, self._directory / book, needed=needed, alone=alone)
        self.opened.append(gossip)
        return gossip

    def known(self) -> list[Peer]:
        return [peer_at(str(i), peer) for i, peer in enumerate(self.peers)]


@pytest.fixture
def fleet(identities: list[Identity], tmp_path: Path) -> Iterator[Fleet]:
    new_fleet = Fleet(identities, tmp_path)
    yield new_fleet
    for item in new_fleet.opened:
        item.close()


async def test_nothing_is_released_before_enough_peers_have_answered(fleet: Fleet) -> None:
    device = fleet.start(Past(), needed=2)
    waiting = asyncio.create_task(device.wait_for_permission())
    await fleet.send_head(device)
    await fleet.send_head(device)
    assert device.detector.confirmation_count == 1, "the same peer counts once"
    await let_others_run(20)
    assert not waiting.done()
    await fleet.send_head(device, 1)
    assert await asyncio.wait_for(waiting, TIMEOUT)


async def test_device_without_peers_does_not_wait_but_copies_are_detected(fleet: Fleet) -> None:
    await fleet.send_head(fleet.start(Past(57)))
    device = fleet.start(Past(41), alone=True)
    there = {where: fleet.village.pop(where) for where in list(fleet.village)}
    assert await device.wait_for_permission()
    fleet.village |= there
    with pytest.raises(LedgerError, match=OLDER):
        await fleet.send_head(device)


async def test_release_waits_until_a_peer_has_stored_the_head(fleet: Fleet, identities: list[Identity]) -> None:
    """A device that is only queried, and stopped within its first second, could never release again."""
    past, away = Past(), fleet.village.pop("1")
    answering = fleet.village.pop("0")
    fleet.village["device"] = device = fleet.start(past)
    waiting = asyncio.create_task(device.wait_for_permission())
    await answering.send_head(peer_at("device", identities[0]))
    assert device.detector.may_release
    await let_others_run(50)
    assert (waiting.done(), past.named) == (False, ())
    assert "1 of 1 peers to store this ledger's head" in device._waiting_reason()
    fleet.village |= {"0": answering, "1": away}
    await fleet.send_head(device, 1)
    assert await asyncio.wait_for(waiting, TIMEOUT)
    past.charges += 1
    restarted = fleet.start(past)
    assert await asyncio.wait_for(restarted.wait_for_permission(), TIMEOUT)


async def test_a_lost_answer_disqualifies_no_witness(
    fleet: Fleet, identities: list[Identity], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head sent since the start is no evidence; an earlier head remains evidence when its witness is asked again."""
    past = Past(5)
    before = fleet.start(past)
    await fleet.release(before, past)
    device = fleet.start(past)
    await fleet.village["0"].receive(identities[0].node_id, encode_heads(Heads(device.head, None)))  # no answer arrives
    await fleet.send_head(device)
    assert device.detector.may_release
    monkeypatch.setattr(module, "RESEND_INTERVAL_SECONDS", 0.0)
    for _ in range(5):
        await fleet.send_head(device)
    for _ in range(3):
        await fleet.release(device, past)
    copy = fleet.start(Past(5))
    with pytest.raises(LedgerError, match=OLDER):
        await fleet.send_head(copy)


async def test_a_device_stopped_while_waiting_may_not_release(fleet: Fleet) -> None:
    device = fleet.start(Past())
    waiting = asyncio.create_task(device.wait_for_permission())
    await let_others_run(20)
    device.stop()
    assert not await asyncio.wait_for(waiting, TIMEOUT)


@pytest.mark.parametrize("contacts, offered", [(True, False), (False, True)])
async def test_ledger_alone_is_suggested_only_without_contacts(
    identities: list[Identity], tmp_path: Path, contacts: bool, offered: bool
) -> None:
    waits = Waits()
    device = head_gossip({}, StubHost(identities[0]), Past(), tmp_path / "book", waits=waits, contacts=contacts)
    waiting = asyncio.create_task(device.wait_for_permission())
    await let_others_run()
    (wait,) = waits.to_dict()
    device.stop()
    await asyncio.wait_for(waiting, TIMEOUT)
    device.close()
    assert wait["repeats"]
    assert ("ledger.alone" in str(wait["reason"])) == offered


async def test_after_a_restart_the_device_continues(fleet: Fleet) -> None:
    past = Past(3)
    before = fleet.start(past)
    await fleet.release(before, past)
    after = fleet.start(past)
    await fleet.send_head(after)
    assert after.detector.may_release
    for _ in range(5):
        await fleet.release(after, past)


async def test_a_peer_s_own_request_counts_as_an_answer(fleet: Fleet, identities: list[Identity]) -> None:
    """A head in a peer's own request counts like one in an answer."""
    await fleet.send_head(fleet.start(Past(57)))
    fleet.village["device"] = device = fleet.start(Past(57))
    await fleet.village["0"].send_head(peer_at("device", identities[0]))
    assert device.detector.may_release
    fleet.village["device"] = fleet.start(Past(41))
    with pytest.raises(LedgerError, match="charge 57"):
        await fleet.village["0"].send_head(peer_at("device", identities[0]))


@pytest.mark.parametrize("charges, words", [(41, OLDER), (57, COPY), (60, COPY)])
async def test_a_restored_copy_is_detected_whatever_it_has_done_since(fleet: Fleet, charges: int, words: str) -> None:
    """Its past differs from the original's from charge 41 on, its first release."""
    await fleet.send_head(fleet.start(Past(57)))
    restored = fleet.start(Past(charges, "copy", common=41))
    with pytest.raises(LedgerError, match=words):
        await fleet.send_head(restored)
    assert not restored.detector.may_release


async def test_a_device_s_own_book_detects_a_restored_ledger(fleet: Fleet) -> None:
    fleet.start(Past(57), book="own")
    with pytest.raises(LedgerError, match=r"heads\.db.*\b57\b"):
        fleet.start(Past(41), book="own")
    fleet.start(Past(57), book="own")


async def test_two_running_copies_are_both_detected_once_both_have_released(fleet: Fleet) -> None:
    one, two = Past(5, "one", common=5), Past(5, "two", common=5)
    original, clone = fleet.start(one), fleet.start(two)
    await fleet.send_head(original)
    await fleet.send_head(clone)
    await fleet.release(original, one)
    with pytest.raises(LedgerError, match=COPY):
        await fleet.release(clone, two)
    with pytest.raises(LedgerError, match=COPY):
        await fleet.release(original, one)


async def test_two_running_copies_that_release_nothing_learn_of_each_other(fleet: Fleet) -> None:
    original, clone = fleet.start(Past(5)), fleet.start(Past(5))
    await fleet.send_head(original)
    await fleet.send_head(clone)
    await fleet.send_head(original)  # the message might have been late
    await fleet.send_head(clone)
    with pytest.raises(LedgerError, match="copies"):
        await fleet.send_head(original)


async def test_a_late_message_from_an_earlier_start_accuses_no_device(fleet: Fleet, identities: list[Identity]) -> None:
    past = Past(5)
    earlier, now = fleet.start(past), fleet.start(past)
    await fleet.send_head(now)
    await fleet.send_head(earlier)
    await fleet.send_head(now)
    await fleet.release(now, past)
    late = encode_heads(Heads(earlier.head, None))
    answer, refusal = await fleet.village["0"].receive(identities[0].node_id, late)
    assert (refusal is None, decode_heads(answer).known_head) == (False, now.head), "it is older than the known head"
    await fleet.send_head(now)


@pytest.mark.parametrize("ago", [1, 3])
async def test_heads_of_earlier_starts_accuse_no_device_however_often_a_peer_returns_them(
    fleet: Fleet, ago: int
) -> None:
    """A dishonest peer keeps them, and a busy one answers after the restart."""
    past = Past(5)
    lives = [fleet.start(past, book="own") for _ in range(ago + 1)]
    earlier, now = lives[0], lives[-1]
    await fleet.send_head(now)
    for _ in range(5):
        await fleet.send_head(earlier)
        await fleet.send_head(now)
        await fleet.send_head(now)


async def test_reordered_messages_from_one_start_are_no_evidence(fleet: Fleet, identities: list[Identity]) -> None:
    past = Past(5)
    device = fleet.start(past)
    early = encode_heads(Heads(device.head, None))
    await fleet.release(device, past)
    assert (await fleet.village["0"].receive(identities[0].node_id, early))[1] is None


async def test_contradicting_heads_are_refused_as_ledger_and_not_stored(
    fleet: Fleet, identities: list[Identity]
) -> None:
    await fleet.send_head(fleet.start(Past(57)))
    answer, refusal = await fleet.village["0"].receive(
        identities[0].node_id, encode_heads(Heads(make_head(identities[0], 41), None))
    )
    assert refusal is not None
    assert refusal.reason == "ledger"
    known = decode_heads(answer).known_head
    assert known is not None
    assert known.charges == 57


@pytest.mark.parametrize("lie", ["unsigned", "another's", "of another fleet"])
async def test_a_forged_head_is_refused_and_has_no_effect(
    fleet: Fleet, identities: list[Identity], tmp_path: Path, lie: str
) -> None:
    device, liar = fleet.start(Past(5)), identities[1]
    stranger = enrol(create_fleet(tmp_path / "authority", "elsewhere"), tmp_path / "stranger")
    known = {
        "unsigned": replace(make_head(identities[0], 9), signature=make_head(liar, 9).signature),
        "another's": make_head(liar, 9),
        "of another fleet": make_head(stranger, 9),
    }[lie]
    with pytest.raises(MessageRefused) as exc_info:
        await device.receive(liar.node_id, encode_heads(Heads(make_head(liar, 0), known)))
    assert exc_info.value.reason in {"signature", "head"}
    assert not device.detector.may_release


async def test_no_device_can_send_another_s_head(fleet: Fleet, identities: list[Identity]) -> None:
    device, speaker = fleet.start(Past()), identities[1].node_id
    for told in (make_head(identities[2], 1), None):
        with pytest.raises(MessageRefused, match="ledger head"):
            await device.receive(speaker, encode_heads(Heads(told, None)))


async def test_a_head_is_due_after_a_ledger_change_and_after_a_pause_that_grows(
    fleet: Fleet, identities: list[Identity], monkeypatch: pytest.MonkeyPatch
) -> None:
    past, peer, now = Past(), identities[1].node_id, 1000.0
    monkeypatch.setattr("sottovoce.node.gossip.ledger_head_gossip.time.monotonic", lambda: now)
    device = fleet.start(past)
    assert device.is_due(peer)
    await fleet.send_head(device)
    assert not device.is_due(peer)
    past.charges += 1
    device.advance(past.tip())
    assert device.is_due(peer)
    await fleet.send_head(device)
    for pause in (60, 120, 240, 480, 960, 1920, 3600, 3600):
        now += pause - 1
        assert not device.is_due(peer)
        now += 1
        assert device.is_due(peer)
        await fleet.send_head(device)
    past.charges += 1
    device.advance(past.tip())
    await fleet.send_head(device)
    now += 60
    assert device.is_due(peer), "a changed head is sent again after a minute"


async def test_an_absent_peer_is_informed_later(fleet: Fleet, identities: list[Identity]) -> None:
    device = fleet.start(Past())
    with pytest.raises(DeliveryFailed):
        await device.send_head(peer_at("nowhere", identities[1]))
    assert device.is_due(identities[1].node_id)
    assert not device.detector.may_release


async def test_heads_reach_the_file_while_the_device_runs(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST_WRITE_INTERVAL_SECONDS", 0.0)
    past, written, loop = Past(), asyncio.Event(), asyncio.get_running_loop()
    device = fleet.start(past, book="own")
    write = device._head_store.write

    def write_and_tell() -> None:
        write()
        loop.call_soon_threadsafe(written.set)

    monkeypatch.setattr(device._head_store, "write", write_and_tell)
    past.charges += 1
    device.advance(past.tip())
    running = asyncio.create_task(device.run())
    await asyncio.wait_for(written.wait(), TIMEOUT)
    crashed = LedgerHeadStore(tmp_path / "own")
    assert crashed.get_head(fleet.device.node_id) == device.head
    crashed.close()
    device.stop()
    await asyncio.wait_for(running, TIMEOUT)


async def test_a_full_disk_is_reported(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_WRITE_INTERVAL_SECONDS", 0.0)
    past = Past()
    device = fleet.start(past)
    fleet.opened.remove(device)
    device.close()
    past.charges += 1
    device.advance(past.tip())
    with pytest.raises(DataError, match="cannot use"):
        await asyncio.wait_for(device.run(), TIMEOUT)
