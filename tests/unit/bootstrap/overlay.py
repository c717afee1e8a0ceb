"""Memberships on a simulated network, under a virtual clock: what agents do with them, without the agents."""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sottovoce.errors import MessageRefused
from sottovoce.fleet import Identity, Trust
from sottovoce_bootstrap import (
    Author,
    Contact,
    DuplicateIdentity,
    Effect,
    Exchange,
    Membership,
    Remember,
    Request,
    Settings,
    Verifier,
)

PERIOD = 10.0
DELAY = 0.05
TIMEOUT = 3.0


@dataclass(slots=True)
class Node:
    """Device: the parts that survive its death, and the membership, which does not.

    Attributes:
        address: what it is known by on this network; copies of one identity differ in it.
        identity: who it is.
        seeds: from its configuration.
        boots: its boot counter.
        book: its address book.
        membership: None while it is down.
        alarms: duplicate identities it has warned of.
    """

    address: str
    identity: Identity
    seeds: Sequence[Contact]
    boots: int = 0
    book: dict[str, Contact] = field(default_factory=dict)
    membership: Membership | None = None
    alarms: list[DuplicateIdentity] = field(default_factory=list)


class Overlay:
    """Fleet; `reachable` tells which address can currently reach which."""

    def __init__(self, seed: int, *, loss: float = 0.0, view_size: int = 30) -> None:
        self.now = 0.0
        self.nodes: dict[str, Node] = {}
        self.reachable: Callable[[str, str], bool] = lambda one, other: True
        self.refusals: Counter[str] = Counter()
        self._settings = Settings(period=PERIOD, view_size=view_size)
        self._loss = loss
        self._dice = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._verifiers: dict[str, Verifier] = {}

    def add(self, identity: Identity, seeds: Sequence[Contact] = (), address: str | None = None) -> Node:
        """Add a device and switch it on at once."""
        node = Node(address or make_address(identity), identity, seeds)
        self.nodes[node.address] = node
        self.start(node)
        return node

    def start(self, node: Node) -> None:
        """Switch a device on, with its stored state."""
        node.boots += 1
        verifier = self._verifiers.setdefault(node.identity.fleet, Verifier(Trust(node.identity)))
        node.membership = Membership(
            node_id=node.identity.node_id,
            settings=self._settings,
            incarnation=node.boots,
            issue=Author(node.identity, [node.address], ["grpc"]).issue,
            verify=verifier.verify,
            seeds=node.seeds,
            book=list(node.book.values()),
            rng=random.Random(self._dice.random()),
            now=self.now,
        )
        self._at(self.now + self._dice.uniform(0, PERIOD), self._ticker(node, node.membership))

    def stop(self, node: Node) -> None:
        """Cut its power."""
        node.membership = None

    def run(self, periods: float) -> None:
        """Let time pass."""
        until = self.now + periods * PERIOD
        while self._events and self._events[0][0] <= until:
            self.now, _, happen = heapq.heappop(self._events)
            happen()
        self.now = until

    def until(self, condition: Callable[[], object], periods: int = 60) -> None:
        """Let periods pass until a condition holds. Keys differ in every run, and so does rng."""
        for _ in range(periods):
            if condition():
                return
            self.run(1)
        assert condition(), f"not within {periods} periods"

    def perform(self, node: Node, effects: list[Effect]) -> None:
        """Carry out a membership's effects."""
        for effect in effects:
            match effect:
                case Request(contact, exchange):
                    self._send(node, contact, exchange)
                case Remember(contact):
                    node.book[contact.node_id] = contact
                case DuplicateIdentity(incarnation):
                    node.alarms.append(effect)
                    node.boots = incarnation
                    if node.membership is not None:
                        node.membership.adopt(incarnation, self.now)

    def views(self) -> Mapping[str, set[str]]:
        """Return, for each device that is on, the ids in its view."""
        return {
            node.identity.node_id: {record.node_id for record in node.membership.view}
            for node in self.nodes.values()
            if node.membership is not None
        }

    def dead_share(self) -> float:
        """Return the share of all view entries whose devices are off."""
        views = self.views()
        entries = [peer for view in views.values() for peer in view]
        return sum(peer not in views for peer in entries) / max(1, len(entries))

    def components(self) -> int:
        """Return the number of weakly connected components among the devices that are on."""
        views = self.views()
        label = {node: node for node in views}
        for _ in views:
            for node, view in views.items():
                group = [node, *(peer for peer in view if peer in views)]
                least = min(label[peer] for peer in group)
                for peer in group:
                    label[peer] = least
        return len(set(label.values()))

    def _ticker(self, node: Node, membership: Membership) -> Callable[[], None]:
        def tick() -> None:
            if node.membership is not membership:
                return
            if self.now >= membership.due:
                self.perform(node, membership.tick(self.now))
            self._at(max(membership.due, self.now + DELAY), tick)

        return tick

    def _send(self, node: Node, contact: Contact, exchange: Exchange) -> None:
        sender, answered = node.membership, [False]
        assert sender is not None

        def arrive() -> None:
            target = next((self.nodes[point] for point in contact.endpoints if point in self.nodes), None)
            if target is None or target.membership is None or target.identity.node_id != contact.node_id:
                return
            if not self.reachable(node.address, target.address) or self._dice.random() < self._loss:
                return
            try:
                reply, effects = target.membership.on_request(node.identity.node_id, exchange, self.now)
            except MessageRefused as refusal:
                self.refusals[refusal.reason] += 1
                return
            self.perform(target, effects)
            if self._dice.random() >= self._loss:
                self._at(self.now + DELAY, lambda: hear(reply))

        def hear(reply: Exchange) -> None:
            if node.membership is sender and not answered[0]:
                answered[0] = True
                self.perform(node, sender.on_reply(contact.node_id, reply, self.now))

        def give_up() -> None:
            if node.membership is sender and not answered[0]:
                answered[0] = True
                self.perform(node, sender.on_failure(contact.node_id, self.now))

        self._at(self.now + DELAY, arrive)
        self._at(self.now + TIMEOUT, give_up)

    def _at(self, time: float, happen: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, happen))


def make_address(identity: Identity) -> str:
    """Return a device's listening address on this network, which has no prefix limits."""
    return f"{identity.node_id[:12]}.internal:7400"


def make_seed(identity: Identity) -> Contact:
    """Return a device as another device's seed."""
    return Contact(identity.node_id, (make_address(identity),))
