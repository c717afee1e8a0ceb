"""Members sign the sums that they open; a few exchanges later, every device can prove the result."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from sottovoce.errors import MessageRefused
from sottovoce.fleet import Identity
from sottovoce.learning.learners import PublishSum
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.node.gossip.messenger import Messenger
from sottovoce.node.gossip.result_book import NAME, ResultBook, read_results
from sottovoce.node.gossip.result_gossip import RESULTS, ResultGossip
from sottovoce.node.opened_sum import read_result, verify_result
from sottovoce.node.waits import Waits
from sottovoce.ops import Counters
from sottovoce.privacy.api import PrivacyStatement, Status
from sottovoce.task import Task
from sottovoce_operator.fleet import Fleet

from tests.support.fleets import new_fleet
from tests.support.hosts import StubHost
from tests.support.opened_sums import DAY, SETTINGS, confirm, new_members, opened_sum, result_file
from tests.support.waiting import eventually

TASK = Task(SETTINGS)
STATEMENT = PrivacyStatement(
    unit="device", neighbouring="add-remove", mechanism="", composition="", epsilon=1.0, delta=1e-5, threat_model="",
    status=Status.PROVED, reason="",
)  # fmt: skip


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return new_fleet(tmp_path_factory.mktemp("street") / "authority")


@pytest.fixture(scope="module")
def members(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    return new_members(fleet, tmp_path_factory.mktemp("members"), 6)


def make_book(state: Path, identity: Identity, revoked: Sequence[str] = ()) -> ResultBook:
    return ResultBook(state, TASK.digest, lambda: identity, lambda node: node in revoked)


class Wire:
    """Delivers messages between the devices of one fleet; implements the part of Transport that gossip uses."""

    def __init__(self) -> None:
        self.devices: dict[str, Callable[[str, bytes], Awaitable[bytes]]] = {}

    def seal(self, sender: str) -> Callable[[str, str, bytes], bytes]:
        def seal(recipient: str, kind: str, payload: bytes) -> bytes:
            assert kind == RESULTS
            return msgspec.msgpack.encode((sender, payload))

        return seal

    async def deliver(self, peer: Peer, raw: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        sender, payload = msgspec.msgpack.decode(raw, type=tuple[str, bytes])
        if peer.id not in self.devices:
            raise DeliveryFailed("unreachable", f"{peer.id} is off")
        return await self.devices[peer.id](sender, payload)


def make_device(wire: Wire, state: Path, identity: Identity, members: Sequence[Identity]) -> ResultGossip:
    messenger = Messenger(wire.seal(identity.node_id), wire, 5.0, Counters(), Waits())  # type: ignore[arg-type]
    book = make_book(state / identity.node_id, identity)
    host = StubHost(
        identity, lambda: [Peer(other.node_id, "here:1", "here") for other in members if other is not identity]
    )
    host.has_model = True
    gossip = ResultGossip(host=host, task=TASK, statement=STATEMENT, book=book, messenger=messenger)
    wire.devices[identity.node_id] = gossip.receive
    return gossip


def opened_round(members: Sequence[Identity]) -> PublishSum:
    owners = tuple(member.node_id for member in members)
    total = np.array([1024, 2048, -512, 4096])
    return PublishSum(0, b"\xab" * 32, owners, tuple(range(len(owners))), -10, total, 300)


def signature_counts(book: ResultBook) -> list[int]:
    return [len(document.confirmations) for document in book.results]


async def test_every_device_ends_with_every_signature(members: list[Identity], tmp_path: Path) -> None:
    wire = Wire()
    devices = [make_device(wire, tmp_path, member, members) for member in members]
    running = [asyncio.create_task(device.run()) for device in devices]
    for device in devices[:5]:
        await device.publish(opened_round(members[:5]))
    await eventually(lambda: all(signature_counts(device.book) == [5] for device in devices))
    for device in devices:
        device.stop()
    await asyncio.gather(*running)
    digests = {device.book.results[0].opened.digest for device in devices}
    assert len(digests) == 1, "the last device was in no roster, and has adopted the sum"
    for member in members:
        (stored,) = read_results(tmp_path / member.node_id)
        verify_result(stored, member.authority, (), required=5)


def test_a_result_survives_a_restart_with_its_signatures(members: list[Identity], tmp_path: Path) -> None:
    opened = opened_sum(members)
    book = make_book(tmp_path, members[0])
    assert book.add_own(opened, DAY)
    book.add_confirmations(opened.digest, [confirm(member, opened) for member in members[1:4]])
    book.close()
    assert make_book(tmp_path, members[0]).results == book.results
    assert len(book.results[0].confirmations) == 4
    assert not book.add_own(opened, DAY), "it has signed already"
    (file,) = (tmp_path / NAME).iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert (tmp_path / NAME).stat().st_mode & 0o077 == 0
    assert read_result(file.read_bytes(), file) == book.results[0]


def test_a_device_signs_one_content_per_sum(members: list[Identity], tmp_path: Path) -> None:
    book, opened = make_book(tmp_path, members[0]), opened_sum(members)
    assert book.add_own(opened, DAY)
    for other in (opened_sum(members, total=(0, 0, 0, 0)), opened_sum(members, survivors=(0, 1, 2, 3, 4))):
        assert not book.add_own(other, DAY)
    assert [document.opened for document in book.results] == [opened]
    assert book.add_own(opened_sum(members, slot=1), DAY), "another sum of the task"


def test_an_invalid_signature_is_refused_and_changes_nothing(members: list[Identity], tmp_path: Path) -> None:
    book, opened = make_book(tmp_path, members[0]), opened_sum(members)
    book.add_own(opened, DAY)
    before = book.results
    other = opened_sum(members, total=(1, 2, 3, 4))
    forged = msgspec.structs.replace(confirm(members[1], opened), owner=members[2].node_id)
    for bad in (confirm(members[1], other), forged):
        with pytest.raises(MessageRefused):
            book.add_confirmations(opened.digest, [confirm(members[3], opened), bad])
        assert book.results == before


@pytest.mark.parametrize(
    "change, signers",
    [({}, 4), ({"task": msgspec.json.encode({**SETTINGS, "task.name": "x"}, order="sorted").decode()}, 6)],
    ids=["too few signatures", "another task"],
)
def test_a_device_adopts_only_what_enough_members_of_its_task_signed(
    change: Mapping[str, str], signers: int, members: list[Identity], tmp_path: Path
) -> None:
    opened = opened_sum(members, **change)
    document = result_file(members, members[:signers], opened)
    book = make_book(tmp_path, members[5])
    if change:
        with pytest.raises(MessageRefused):
            book.add_confirmed(opened, document.confirmations)
    else:
        assert not book.add_confirmed(opened, document.confirmations)
        assert not book.results
        assert book.add_confirmed(opened, [confirm(members[4], opened)]), "the fifth signature has arrived"
    assert len(book.results) == (not change)


def test_two_contents_cannot_both_be_adopted(members: list[Identity], tmp_path: Path) -> None:
    book, opened = make_book(tmp_path, members[0]), opened_sum(members)
    book.add_own(opened, DAY)
    other = opened_sum(members, total=(1, 2, 3, 4))
    with pytest.raises(MessageRefused, match="another content"):
        book.add_confirmed(other, result_file(members, members[1:], other).confirmations)


def test_a_revoked_member_s_signature_is_not_collected(members: list[Identity], tmp_path: Path) -> None:
    opened = opened_sum(members)
    book = make_book(tmp_path, members[0], revoked=[members[1].node_id])
    book.add_own(opened, DAY)
    assert not book.add_confirmations(opened.digest, [confirm(members[1], opened)])
    assert book.add_confirmations(opened.digest, [confirm(members[2], opened)])


async def test_malformed_messages_are_refused(members: list[Identity], tmp_path: Path) -> None:
    device = make_device(Wire(), tmp_path, members[0], members)
    for payload in (b"", b"\xff", msgspec.msgpack.encode(["x"]), msgspec.msgpack.encode([[[b"short", b""]], []])):
        with pytest.raises(MessageRefused) as refused:
            await device.receive(members[1].node_id, payload)
        assert refused.value.reason == "malformed"


def test_a_corrupt_file_hides_no_other_result(
    members: list[Identity], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    book = make_book(tmp_path, members[0])
    book.add_own(opened_sum(members), DAY)
    (tmp_path / NAME / "spoilt.json").write_bytes(b"{}")
    assert len(make_book(tmp_path, members[0]).results) == 1
    assert "spoilt.json" in caplog.text
