"""Gossip of ledger heads: which device may release, which is named as a copy, and which are notified."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sottovoce.agent import ledger_head_gossip as module
from sottovoce.agent.ledger_head_gossip import LedgerHeadGossip
from sottovoce.agent.wait_status import Waits
from sottovoce.errors import DataError, LedgerError, MessageRefused
from sottovoce.identity import Identity, create_fleet, enrol
from sottovoce.transport import DeliveryFailed, Peer
from sottovoce.wire import Heads, decode_heads, encode_heads

from tests.support.heads import Past, at, head, head_gossip
from tests.support.waiting import PATIENCE

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
        """The device, with this ledger; with a book of its own unless one is named."""
        return self._open(self.device, past, book or f"device-{len(self.opened)}", needed=needed, alone=alone)

    async def send_head(self, device: LedgerHeadGossip, peer: int = 0) -> None:
        await device.send_head(at(str(peer), self.peers[peer]))

    async def release(self, device: LedgerHeadGossip, past: Past, peer: int = 0) -> None:
        """It charges, releases, and tells a peer."""
        past.charges += 1
        await device.advance(past.tip())
        await self.send_head(device, peer)

    def _open(self, who: Identity, past: Past, book: str, *, needed: int = 1, alone: bool = False) -> LedgerHeadGossip:
        made = head_gossip(self.village, who, past, self._directory / book, needed=needed, alone=alone)
        made.attach(None, self.known, lambda node: False)  # type: ignore[arg-type]
        self.opened.append(made)
        return made

    def known(self) -> list[Peer]:
        return [at(str(i), peer) for i, peer in enumerate(self.peers)]


@pytest.fixture
def fleet(identities: list[Identity], tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(identities, tmp_path)
    yield made
    for one in made.opened:
        one.close()


async def test_nothing_is_released_before_enough_peers_have_answered(fleet: Fleet) -> None:
    device = fleet.start(Past(), needed=2)
    waiting = asyncio.create_task(device.wait_for_permission())
    await fleet.send_head(device)
    await fleet.send_head(device)
    assert device.detector.agreeing_count == 1, "the same peer counts once"
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await fleet.send_head(device, 1)
    assert await asyncio.wait_for(waiting, PATIENCE)


async def test_alone_it_waits_for_nobody_and_is_named_all_the_same(fleet: Fleet) -> None:
    await fleet.send_head(fleet.start(Past(57)))
    device = fleet.start(Past(41), alone=True)
    there = {where: fleet.village.pop(where) for where in list(fleet.village)}
    assert await device.wait_for_permission()
    fleet.village |= there
    with pytest.raises(LedgerError, match=OLDER):
        await fleet.send_head(device)


async def test_nothing_is_released_before_the_next_start_would_find_a_peer_that_knows(
    fleet: Fleet, identities: list[Identity]
) -> None:
    """A device that is only asked itself, and stopped within its first second, could never release again."""
    past, away = Past(), fleet.village.pop("1")
    answering = fleet.village.pop("0")
    fleet.village["device"] = device = fleet.start(past)
    waiting = asyncio.create_task(device.wait_for_permission())
    await answering.send_head(at("device", identities[0]))
    assert device.detector.may_release
    await asyncio.sleep(0.05)
    assert (waiting.done(), past.named) == (False, ())
    assert "1 of 1 peers to store this ledger's head" in device._waiting_reason()
    fleet.village |= {"0": answering, "1": away}
    await fleet.send_head(device, 1)
    assert await asyncio.wait_for(waiting, PATIENCE)
    past.charges += 1
    again = fleet.start(past)
    assert await asyncio.wait_for(again.wait_for_permission(), PATIENCE)


async def test_a_lost_answer_silences_no_keeper(
    fleet: Fleet, identities: list[Identity], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was told since the start is no witness; what it knew before still is, when it is asked again."""
    past = Past(5)
    before = fleet.start(past)
    await fleet.release(before, past)
    device = fleet.start(past)
    await fleet.village["0"].receive(identities[0].node_id, encode_heads(Heads(device.head, None)))  # no answer comes
    await fleet.send_head(device)
    assert device.detector.may_release
    monkeypatch.setattr(module, "TELL_EVERY_SECONDS", 0.0)
    for _ in range(5):
        await fleet.send_head(device)
    for _ in range(3):
        await fleet.release(device, past)
    copy = fleet.start(Past(5))
    with pytest.raises(LedgerError, match=OLDER):
        await fleet.send_head(copy)


async def test_stopped_while_it_waits_it_may_not_release(fleet: Fleet) -> None:
    device = fleet.start(Past())
    waiting = asyncio.create_task(device.wait_for_permission())
    await asyncio.sleep(0.01)
    device.stop()
    assert not await asyncio.wait_for(waiting, PATIENCE)


@pytest.mark.parametrize("contacts, offered", [(True, False), (False, True)])
async def test_to_be_alone_is_offered_to_those_without_any_contact(
    identities: list[Identity], tmp_path: Path, contacts: bool, offered: bool
) -> None:
    waits = Waits()
    device = head_gossip({}, identities[0], Past(), tmp_path / "book", waits=waits, contacts=contacts)
    waiting = asyncio.create_task(device.wait_for_permission())
    await asyncio.sleep(0)
    (wait,) = waits.as_document()
    device.stop()
    await asyncio.wait_for(waiting, PATIENCE)
    device.close()
    assert wait["repeats"]
    assert ("ledger.alone" in str(wait["reason"])) == offered


async def test_after_a_restart_it_goes_on(fleet: Fleet) -> None:
    past = Past(3)
    before = fleet.start(past)
    await fleet.release(before, past)
    after = fleet.start(past)
    await fleet.send_head(after)
    assert after.detector.may_release
    for _ in range(5):
        await fleet.release(after, past)


async def test_a_peer_that_hears_first_tells_what_it_knows(fleet: Fleet, identities: list[Identity]) -> None:
    """What a peer says in a question of its own counts like an answer."""
    await fleet.send_head(fleet.start(Past(57)))
    fleet.village["device"] = device = fleet.start(Past(57))
    await fleet.village["0"].send_head(at("device", identities[0]))
    assert device.detector.may_release
    fleet.village["device"] = fleet.start(Past(41))
    with pytest.raises(LedgerError, match="charge 57"):
        await fleet.village["0"].send_head(at("device", identities[0]))


@pytest.mark.parametrize("charges, words", [(41, OLDER), (57, COPY), (60, COPY)])
async def test_a_restored_copy_is_named_whatever_it_did_since(fleet: Fleet, charges: int, words: str) -> None:
    """Its past parts from that of the original at charge 41, with its first release."""
    await fleet.send_head(fleet.start(Past(57)))
    restored = fleet.start(Past(charges, "copy", common=41))
    with pytest.raises(LedgerError, match=words):
        await fleet.send_head(restored)
    assert not restored.detector.may_release


async def test_its_own_book_names_a_restored_ledger(fleet: Fleet) -> None:
    fleet.start(Past(57), book="own")
    with pytest.raises(LedgerError, match=r"this device's heads\.db knows of charge 57"):
        fleet.start(Past(41), book="own")
    fleet.start(Past(57), book="own")


async def test_two_at_once_are_both_named_once_both_have_released(fleet: Fleet) -> None:
    one, two = Past(5, "one", common=5), Past(5, "two", common=5)
    original, clone = fleet.start(one), fleet.start(two)
    await fleet.send_head(original)
    await fleet.send_head(clone)
    await fleet.release(original, one)
    with pytest.raises(LedgerError, match=COPY):
        await fleet.release(clone, two)
    with pytest.raises(LedgerError, match=COPY):
        await fleet.release(original, one)


async def test_two_at_once_that_release_nothing_hear_of_each_other(fleet: Fleet) -> None:
    original, clone = fleet.start(Past(5)), fleet.start(Past(5))
    await fleet.send_head(original)
    await fleet.send_head(clone)
    await fleet.send_head(original)  # that one might have been late
    await fleet.send_head(clone)
    with pytest.raises(LedgerError, match="receives messages from both copies in turn"):
        await fleet.send_head(original)


async def test_a_late_message_of_an_earlier_life_names_nobody(fleet: Fleet, identities: list[Identity]) -> None:
    past = Past(5)
    earlier, now = fleet.start(past), fleet.start(past)
    await fleet.send_head(now)
    await fleet.send_head(earlier)
    await fleet.send_head(now)
    await fleet.release(now, past)
    late = encode_heads(Heads(earlier.head, None))
    answer, refusal = await fleet.village["0"].receive(identities[0].node_id, late)
    assert (refusal is None, decode_heads(answer).known) == (False, now.head), "it is older than what is known"
    await fleet.send_head(now)


async def test_messages_of_one_life_out_of_order_are_no_evidence(fleet: Fleet, identities: list[Identity]) -> None:
    past = Past(5)
    device = fleet.start(past)
    early = encode_heads(Heads(device.head, None))
    await fleet.release(device, past)
    assert (await fleet.village["0"].receive(identities[0].node_id, early))[1] is None


async def test_evidence_is_refused_for_ledger_and_not_kept(fleet: Fleet, identities: list[Identity]) -> None:
    await fleet.send_head(fleet.start(Past(57)))
    answer, refusal = await fleet.village["0"].receive(
        identities[0].node_id, encode_heads(Heads(head(identities[0], 41), None))
    )
    assert refusal is not None
    assert refusal.reason == "ledger"
    known = decode_heads(answer).known
    assert known is not None
    assert known.charges == 57


@pytest.mark.parametrize("lie", ["unsigned", "another's", "of another fleet"])
async def test_what_a_peer_forges_is_refused_and_counts_for_nothing(
    fleet: Fleet, identities: list[Identity], tmp_path: Path, lie: str
) -> None:
    device, liar = fleet.start(Past(5)), identities[1]
    stranger = enrol(create_fleet(tmp_path / "authority", "elsewhere"), tmp_path / "stranger")
    known = {
        "unsigned": replace(head(identities[0], 9), signature=head(liar, 9).signature),
        "another's": head(liar, 9),
        "of another fleet": head(stranger, 9),
    }[lie]
    with pytest.raises(MessageRefused) as refused:
        await device.receive(liar.node_id, encode_heads(Heads(head(liar, 0), known)))
    assert refused.value.reason in {"signature", "head"}
    assert not device.detector.may_release


async def test_nobody_speaks_for_another(fleet: Fleet, identities: list[Identity]) -> None:
    device, speaker = fleet.start(Past()), identities[1].node_id
    for told in (head(identities[2], 1), None):
        with pytest.raises(MessageRefused, match="sent a ledger head that is not its own"):
            await device.receive(speaker, encode_heads(Heads(told, None)))


async def test_it_is_due_when_the_ledger_has_moved_and_after_a_minute(
    fleet: Fleet, identities: list[Identity], monkeypatch: pytest.MonkeyPatch
) -> None:
    past, peer = Past(), identities[1].node_id
    device = fleet.start(past)
    assert device.is_due(peer)
    await fleet.send_head(device)
    assert not device.is_due(peer)
    past.charges += 1
    await device.advance(past.tip())
    assert device.is_due(peer)
    await fleet.send_head(device)
    assert not device.is_due(peer)
    monkeypatch.setattr(module, "TELL_EVERY_SECONDS", 0.0)
    assert device.is_due(peer)


async def test_a_peer_that_is_away_is_told_later(fleet: Fleet, identities: list[Identity]) -> None:
    device = fleet.start(Past())
    with pytest.raises(DeliveryFailed):
        await device.send_head(at("nowhere", identities[1]))
    assert device.is_due(identities[1].node_id)
    assert not device.detector.may_release


async def test_a_full_disk_is_named(fleet: Fleet) -> None:
    past = Past()
    device = fleet.start(past)
    device.close()
    past.charges += 1
    with pytest.raises(DataError, match="cannot use"):
        await device.advance(past.tip())
