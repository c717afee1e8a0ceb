"""How contributions travel: once, as changes where the peer has the predecessor, and to every device in the end."""

import hashlib
import random
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pytest
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.state import (
    Change,
    Contribution,
    Contributions,
    rank,
    steps_by_rank,
)
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import Ask, Delivered, Message, PeersChanged, Received, Reply, Send, Signed
from sottovoce.net.wire import decode, encode

from tests.unit.learners.support import TICK, FakeRelease, S, schedule

ONE = 2**40
CERTIFICATES = {owner: owner.encode() * 9 for owner in "abcdefgh"}


class Seal:
    """Provenance whose signature is a digest of what is signed, so that one changed bit is noticed."""

    def sign(self, own: S) -> S:
        signature = hashlib.sha512(own.signed_bytes("", b"")).digest()
        return cast(S, replace(cast(Any, own), credential=CERTIFICATES[own.owner], signature=signature))

    def verify(self, published: Signed) -> None:
        if not published.credential or published.signature != hashlib.sha512(published.signed_bytes("", b"")).digest():
            raise MessageRefused("provenance", "a published record was not signed by its owner")

    def admit(self, published: Signed) -> None:
        self.verify(published)

    def is_revoked(self, owner: str) -> bool:
        return False


def contribution(owner: str, steps: int, *values: int) -> Contribution:
    return Seal().sign(Contribution(owner, steps, np.array(values or (steps, -steps), dtype=np.int64) * ONE))


class Machine:
    """A device, its state, and the last event's effects; messages pass through the wire's codec."""

    def __init__(self, name: str, *peers: str, steps: int = 12, fanout: int = 2) -> None:
        plan = schedule(size=2, steps=steps, fanout=fanout)
        options: dict[str, Any] = {"owner": name, "provenance": Seal(), "capacity": 8, "dishonest": 0.0}
        self.name, self.peers = name, peers
        self.effects: list[Any] = []
        self.learner = Mixer(plan, np.zeros(2), max_steps=max(1, steps), **options)
        self.state = self.learner.initial_state()
        self.on(PeersChanged(peers))

    def on(self, event: Any) -> "Machine":
        self.state, self.effects = self.learner.on(self.state, event, 0.0)
        return self

    def restart(self, lost: Collection[int] = ()) -> None:
        """Restart from the disk, which lacks these contributions."""
        held = {at: item for at, item in self.state.held.items() if at not in lost}
        self.state = self.learner.restore(replace(self.state, held=held), frozenset())
        self.state, self.effects = self.learner.start(self.state, 0.0)
        self.on(PeersChanged(self.peers))

    def answer(self) -> None:
        """Answer the query of the last beat, if there is one."""
        for effect in self.effects:
            if isinstance(effect, Ask):
                self.on(FakeRelease(effect.query.id, np.array([ONE, -ONE], dtype=np.int64)))

    def beat(self) -> list[Send]:
        self.on(TICK)
        sends = [effect for effect in self.effects if isinstance(effect, Send)]
        self.answer()
        return sends

    def reply(self, sender: str, message: Message) -> Contributions:
        self.on(Received(sender, message))
        (reply,) = (effect for effect in self.effects if isinstance(effect, Reply))
        return through_wire(reply.message)

    def receive(self, sender: str, *some: Contribution, **held: int) -> Contributions:
        """Return the reply to a peer's message with these contributions, and a list of what it holds."""
        return self.reply(sender, Contributions({rank(owner): n for owner, n in held.items()}, some, holdings=7))


def through_wire(message: Message) -> Contributions:
    return cast(Contributions, decode(*encode(message)))


def owners(message: Contributions) -> tuple[list[str], list[tuple[int, int]]]:
    return [item.owner for item in message.contributions], [(item.base, item.steps) for item in message.changes]


def test_a_peer_with_the_predecessor_is_sent_the_change_and_puts_the_contribution_together() -> None:
    sender, other = Machine("a", "b"), Machine("b", "a")
    for steps in (2, 4):
        sender.receive("c", contribution("c", steps))
    other.receive("c", contribution("c", 2))
    reply = sender.reply("b", through_wire(other.beat()[0].message))
    assert owners(reply) == ([], [(2, 4)])
    other.on(Delivered("a", reply))
    assert other.state.held[rank("c")].numerator.tolist() == [4 * ONE, -4 * ONE]
    assert other.state.held[rank("c")].credential == CERTIFICATES["c"]


def test_no_change_is_sent_to_an_earlier_version_or_from_any_other_contribution() -> None:
    sender = Machine("a", "b")
    for steps in (2, 4):
        sender.receive("c", contribution("c", steps))
    earlier = Contributions({rank("c"): 2})
    assert owners(sender.reply("b", earlier)) == (["c"], []), "it states no digest"
    assert owners(sender.receive("b", c=1)) == (["c"], [])


def test_a_change_that_did_not_help_is_followed_by_the_whole_contribution() -> None:
    """Whatever the cause: the peer lost its state, the message was lost, or the owner signed two for one step."""
    sender = Machine("a", "b")
    for steps in (2, 4):
        sender.receive("c", contribution("c", steps))
    assert owners(sender.receive("b", c=2)) == ([], [(2, 4)])
    assert owners(sender.receive("b", c=2)) == (["c"], [])


def test_a_change_from_another_predecessor_is_ignored_and_asked_for_again() -> None:
    device = Machine("a", "c", steps=4).on(Delivered("c"))
    device.receive("c", contribution("c", 2, 9, 9))  # the owner has signed two contributions with two steps
    newer = contribution("c", 4)
    wrong = Change(rank("c"), 2, 4, newer.numerator - contribution("c", 2).numerator, b"", newer.signature)
    unknown = replace(wrong, owner_rank=rank("d"))
    huge = replace(wrong, difference=np.array([2**60, 0]))
    for change in (wrong, unknown, huge, replace(wrong, base=1)):
        reply = device.reply("c", Contributions({rank("c"): 4}, changes=(change,), holdings=7))
        assert reply.steps == {rank("c"): 2}
    assert device.beat(), "it asks, because its list lacks the newer one"


def exchange(one: Machine, two: Machine) -> list[Contributions]:
    """Let each of two devices take a beat; return the requests and replies."""
    exchanged = []
    for device, other in ((one, two), (two, one)):
        for send in device.beat():
            request = through_wire(send.message)
            exchanged += [request, other.reply(device.name, request)]
            device.on(Delivered(send.recipient, exchanged[-1]))
    return exchanged


def test_owners_are_listed_again_only_when_they_change() -> None:
    one, two = Machine("a", "b"), Machine("b", "a")
    for _ in range(3):
        exchange(one, two)
    later = exchange(one, two) + exchange(one, two)
    assert [(message.steps, len(message.ordered_steps)) for message in later] == [({}, 2)] * len(later)
    assert later, "there was something to send"
    one.restart()
    after = exchange(one, two) + exchange(one, two)
    assert any(message.ordered_steps for message in after), "a restart loses no owners"
    two.receive("c", contribution("c", 2))
    for _ in range(3):
        exchange(one, two)
    assert one.state.held[rank("c")].steps == 2, "an owner that it did not know"
    two.state = two.learner.initial_state()
    two.on(PeersChanged(("a",)))
    for _ in range(3):
        exchange(one, two)
    stored, lost = steps_by_rank(one.state.held), steps_by_rank(two.state.held)
    assert {lost[rank(owner)] - stored[rank(owner)] for owner in "ac"} == {0}, "a lost state is replaced"


def test_the_second_message_of_a_beat_waits_for_the_reply_to_the_first_but_not_for_ever() -> None:
    device = Machine("a", "b", "c", "d", steps=12)
    device.beat()
    device.on(Delivered("b", Contributions()))
    assert [effect.recipient for effect in device.effects] == ["c"], "after the reply to the first"
    device.on(Delivered("c", Contributions()))
    assert device.effects == [], "two in one beat"
    assert [send.recipient for send in device.beat()] == ["d"]
    assert [send.recipient for send in device.beat()] == ["b", "c"], "d has not answered, so another takes its place"


def test_no_contribution_is_sent_twice_to_a_device_that_asks_two_peers() -> None:
    device, peers = Machine("a", "b", "c", fanout=2), [Machine("b"), Machine("c")]
    for peer in peers:
        peer.receive("d", contribution("d", 2))
    got = 0
    (send,) = device.beat()
    while True:
        peer = next(each for each in peers if each.name == send.recipient)
        reply = peer.reply("a", through_wire(send.message))
        got += sum(item.owner == "d" for item in reply.contributions)
        device.on(Delivered(send.recipient, reply))
        if not device.effects:
            break
        (send,) = device.effects
    assert got == 1


@dataclass
class Fleet:
    """Devices whose messages and replies are lost, repeated and late, and which restart; see tests/storm for more."""

    seed: int
    devices: dict[str, Machine] = field(default_factory=dict)
    transit: list[tuple[str, Send]] = field(default_factory=list)
    replies: list[tuple[Send, Contributions]] = field(default_factory=list)
    changes: int = 0

    def __post_init__(self) -> None:
        """Create five devices, of which each sends to two others."""
        self.chance = random.Random(self.seed)
        names = "abcde"
        for at, name in enumerate(names):
            self.devices[name] = Machine(name, names[(at + 1) % 5], names[(at + 2) % 5])

    def play(self, rounds: int, loss: float, restarts: float) -> None:
        for _ in range(rounds):
            for name in self.chance.sample(sorted(self.devices), 5):
                if self.chance.random() < restarts:
                    self.restart(name)
                self.send(name, self.devices[name].beat())
            for _ in range(20):
                pending, self.transit = self.transit, []
                for sender, send in pending:
                    self.deliver(sender, send, loss)

    def send(self, name: str, effects: list[Any]) -> None:
        self.transit += [(name, effect) for effect in effects if isinstance(effect, Send)]

    def deliver(self, sender: str, send: Send, loss: float) -> None:
        """Deliver a message, or keep it for another attempt with the same bytes if it or its reply is lost."""
        if self.chance.random() < loss:
            self.transit.append((sender, send))
            return
        message = through_wire(send.message)
        self.changes += len(message.changes)
        reply = next((reply for sent, reply in self.replies if sent is send), None)
        if reply is None:
            reply = self.devices[send.recipient].reply(sender, message)
            self.replies.append((send, reply))
        if self.chance.random() < loss:
            self.transit.append((sender, send))
            return
        self.send(sender, self.devices[sender].on(Delivered(send.recipient, reply)).effects)

    def restart(self, name: str) -> None:
        """Restart a device from its disk, which may lack others' contributions, but not its own."""
        self.transit = [(sender, send) for sender, send in self.transit if sender != name]
        device = self.devices[name]
        lost = {each for each in device.state.held if self.chance.random() < 0.5} - {rank(name)}
        device.restart(lost)


@pytest.mark.parametrize("seed", range(12))
def test_every_contribution_reaches_every_device_whatever_was_lost(seed: int) -> None:
    fleet = Fleet(seed)
    fleet.play(24, loss=0.3, restarts=0.1)
    # Beyond 64 cycles, everything is sent once more to peers that cannot say what they lost.
    fleet.play(70, loss=0.0, restarts=0.0)
    expected = {rank(name): device.state.step for name, device in fleet.devices.items()}
    assert set(expected.values()) == {12}
    for device in fleet.devices.values():
        assert steps_by_rank(device.state.held) == expected
    assert fleet.changes > 30
