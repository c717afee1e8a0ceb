"""Acceptance 6: every message from a device consists only of releases and public state.

One device is run several times with unchanged keys and a ledger that already holds the answers to all its
queries, which makes its vault answer with the stored bytes. Only its records differ between the runs:
their values, their labels, their number. All messages that it hands to its transport, and all its answers, are
recorded. Ed25519 signatures are deterministic, so all recordings must be equal to the last bit.
"""

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.codec import PushSumCodec
from sottovoce.algorithms.push_sum.parts import build_schedule
from sottovoce.algorithms.push_sum.public.machine import PushSum
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.config import load
from sottovoce.data import Records
from sottovoce.errors import ExitCode, MessageRefused
from sottovoce.learning.learners import Ask
from sottovoce.net.transports import Listener, Peer, Receive, Transport
from sottovoce.net.wire import LEDGER_HEAD, Heads, Receipt, decode, encode_heads, encode_receipt, seal, unseal
from sottovoce.net.wire.v1.envelope_pb2 import Envelope
from sottovoce.net.wire.v1.ledger_head_pb2 import LedgerHeads
from sottovoce.node.assemble import Variant, assemble
from sottovoce.node.core import Core, Transmit
from sottovoce.node.sqlite_store import SqliteStore
from sottovoce.privacy.api import Query
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise
from sottovoce_lab.testbed.memory_store import MemoryStore
from sottovoce_operator.fleet import Fleet

from tests.support.attacker import share
from tests.support.devices import CLASSES, FEATURES, Device, draw_records, kernel, new_device
from tests.support.messages import as_push_sum_share

STEPS, CYCLES, PEERS = 6, 10, 6
TERMS = GradientTerms(learner="clipd2p", releases=STEPS, clip=0.5)
Rows = tuple[NDArray[np.float64], NDArray[np.int64]]

WORLDS: dict[str, Rows] = {
    "as they are": draw_records(60, 1),
    "one record more": draw_records(61, 1),
    "others": draw_records(60, 2),
    "other labels": (draw_records(60, 1)[0], (draw_records(60, 1)[1] + 1) % CLASSES),
    "one": draw_records(1, 3),
    "many": draw_records(900, 4),
    "all alike": (np.zeros((60, FEATURES)), np.zeros(60, dtype=np.int64)),
    "beyond the bounds": (np.full((60, FEATURES), 1e30), np.full(60, 2)),
}


@dataclass
class Recording:
    """A transport that confirms everything and keeps the first messages; implements sottovoce.net.transports.Transport.

    On its first day it hands over some messages from others, right and wrong ones. Ledger heads it keeps apart and
    without their life, which is drawn again by every start, and hence without their signature.
    """

    incoming: list[tuple[str, bytes]]
    enough: Callable[[], None] = field(default=lambda: None)
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    answers: list[bytes | str] = field(default_factory=list)
    heads: set[tuple[str, bytes]] = field(default_factory=set)

    @property
    def largest(self) -> int:
        return 2**22

    def reaches(self, address: str) -> bool:
        return bool(address)

    async def start(self, receive: Receive) -> None:
        for sender, raw in self.incoming:
            try:
                self.answers.append(await receive(sender, raw))
            except MessageRefused as refusal:
                self.answers.append(f"{refusal.reason}: {refusal}")

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        envelope = Envelope.FromString(message)
        if envelope.payload_type == LEDGER_HEAD:
            return self._told(peer, envelope.payload)
        heads = self._told(peer, envelope.heads) if envelope.HasField("heads") else None
        envelope.ClearField("heads")
        if len(self.sent) < CYCLES:
            self.sent.append((peer.id, envelope.SerializeToString(deterministic=True)))
        if len(self.sent) == CYCLES:
            self.enough()
        return encode_receipt(Receipt(heads=heads))

    def _told(self, peer: Peer, heads: bytes) -> bytes:
        ledger_heads = LedgerHeads.FromString(heads)
        ledger_heads.head.ClearField("life")
        ledger_heads.head.ClearField("signature")
        self.heads.add((peer.id, ledger_heads.SerializeToString(deterministic=True)))
        return encode_heads(Heads(None, None))

    def listener(self) -> Listener:
        return Listener(handshakes=0, refused=0)

    async def stop(self, grace: float) -> None:
        """Do nothing."""


@pytest.fixture(scope="module")
def device(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Device:
    """A device whose ledger contains the releases for all its steps."""
    directory = tmp_path_factory.mktemp("recorded")
    device = new_device(fleet, directory / "d")
    peers = [new_device(fleet, directory / f"peer-{i}") for i in range(PEERS)]
    schedule = {"steps": STEPS, "period": 0.06}
    device.configure(
        [peer.entry() for peer in peers],
        agent={"bytes_per_day": 2**50},  # earlier tests in this process write files, too
        learner=schedule,
        ledger={"alone": True},
    )
    ledger = Ledger.open(device.ledger, device.id, Budget(2.0, 1e-5, "record", "add-remove"))
    records = Records(np.zeros((5, kernel().features)), np.zeros(5, dtype=np.int64))
    vault = build(records=records, kernel=kernel(), terms=TERMS, ledger=ledger, noise=OperatingSystemNoise())
    for slot in range(STEPS):
        vault.answer(Query("clipd2p", "gradient", slot, np.zeros(kernel().size)))
    vault.close()
    SqliteStore(device.state, learner_of(device), PushSumCodec(learner_of(device)), release_count=0).close()
    shutil.copytree(device.state, fresh(device))
    return device


def learner_of(device: Device) -> PushSum:
    return PushSum(build_schedule(load(device.config), kernel().size))


def fresh(device: Device) -> Path:
    """Reset the device to its state before its first cycle."""
    return device.state.with_name("fresh")


@pytest.fixture(scope="module")
def incoming(device: Device, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, bytes]]:
    """Return two shares, one of them twice, and messages that will be refused."""
    other = new_device(fleet, tmp_path_factory.mktemp("other") / "o").identity

    def envelope(sequence: int, payload: bytes) -> tuple[str, bytes]:
        raw = seal(other, recipient=device.id, incarnation=1, sequence=sequence,
                   payload_type="push-sum-share/1", payload=payload, task=device.task)  # fmt: skip
        return other.node_id, raw

    return [
        envelope(1, share()),
        envelope(1, share()),
        envelope(2, share(np.arange(kernel().size) * 2**30)),
        envelope(3, share(np.zeros(2))),
        (other.node_id, b"garbage"),
    ]


async def run(device: Device, rows: Rows, incoming: list[tuple[str, bytes]], *, ledger: bool = True) -> Recording:
    """Run the device with these records from its initial state."""
    device.hold(*rows)
    shutil.rmtree(device.state)
    shutil.copytree(fresh(device), device.state)
    if not ledger:
        device.ledger.unlink()
        Ledger.create(device.ledger, device.id, Budget(2.0, 1e-5, "record", "add-remove"))
    recording = Recording(incoming)

    def record_transport(inner: Transport) -> Transport:
        return recording

    agent = assemble(load(device.config), Variant(transport=record_transport))
    recording.enough = agent.stop
    assert await agent.run() is ExitCode.DONE
    assert agent.core.state.step == STEPS
    return recording


async def test_no_sent_byte_depends_on_the_records(
    device: Device, incoming: list[tuple[str, bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="sottovoce")
    runs, logs = {}, {}
    for world, rows in WORLDS.items():
        caplog.clear()
        runs[world] = await run(device, rows, incoming)
        logs[world] = [record.getMessage() for record in caplog.records]
    first = runs["as they are"]
    assert len(first.sent) == CYCLES
    assert len({recipient for recipient, _ in first.sent}) == len(first.heads) == PEERS
    for world, recording in runs.items():
        assert recording.sent == first.sent, world
        assert recording.answers == first.answers, world
        assert recording.heads == first.heads, world
        assert logs[world] == logs["as they are"], world
    assert first.answers[0] != first.answers[1]
    assert str(first.answers[3]).startswith("shape: ")
    assert str(first.answers[4]).startswith("malformed: ")


async def test_sent_messages_can_be_computed_from_the_releases_alone(
    device: Device, incoming: list[tuple[str, bytes]]
) -> None:
    """An outsider who knows the ledger's releases and the received messages predicts every number that it sends."""
    recording = await run(device, WORLDS["others"], incoming)
    ledger = Ledger.open(device.ledger, device.id, Budget(2.0, 1e-5, "record", "add-remove"))
    records = Records(np.zeros((0, kernel().features)), np.zeros(0, dtype=np.int64))
    vault = build(records=records, kernel=kernel(), terms=TERMS, ledger=ledger, noise=OperatingSystemNoise())
    try:
        foretold = _foretold(device, vault.answer, incoming)
    finally:
        vault.close()
    assert [_share(device, recipient, raw) for recipient, raw in recording.sent] == foretold


def _foretold(device: Device, answer: Any, incoming: list[tuple[str, bytes]]) -> list[tuple[list[int], int]]:
    learner = learner_of(device)
    core = Core(learner=learner, store=MemoryStore(learner.initial_state()), seal=lambda _, __, message: message)
    core.replace_peers(tuple(peer.id for peer in load(device.config).transport.peers), 0.0)
    for sender, raw in incoming[:3]:
        opened = unseal(raw, fleet=device.identity.fleet, recipient=device.id)
        core.receive(sender, 1, opened.sequence, decode(opened.payload_type, opened.payload), 0.0)
    sent = []
    for cycle in range(CYCLES):
        for action in core.fire("cycle", float(cycle)):
            match action:
                case Transmit(outgoing):
                    assert isinstance(outgoing.parcel, PushSumShare)
                    sent.append((outgoing.parcel.numerator.tolist(), outgoing.parcel.weight))
                    core.confirm(outgoing.recipient, outgoing.sequence, float(cycle))
                case Ask(query):
                    core.apply_query_answer(answer(query), float(cycle))
    return sent


def _share(device: Device, recipient: str, raw: bytes) -> tuple[list[int], int]:
    opened = unseal(raw, fleet=device.identity.fleet, recipient=recipient)
    message = as_push_sum_share(decode(opened.payload_type, opened.payload))
    return message.numerator.tolist(), message.weight


async def test_other_releases_change_the_sent_messages(device: Device, incoming: list[tuple[str, bytes]]) -> None:
    """Confirm the comparison's power: with a new ledger, hence new noise, the same records yield other bytes."""
    first = await run(device, WORLDS["as they are"], incoming)
    second = await run(device, WORLDS["as they are"], incoming, ledger=False)
    assert len(second.sent) == len(first.sent)
    assert second.sent[0] == first.sent[0], "messages before the first release are public"
    assert all(item != other for item, other in zip(second.sent[1:], first.sent[1:], strict=True))
