"""Peer sampling: exchanges membership views over this device's transport, and chooses the learner's peers.

Everything runs on the event loop, except for writes to the address book, because the disk may be slow.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce_bootstrap import (
    AddressBook,
    BootCounter,
    Contact,
    DuplicateIdentity,
    Effect,
    Membership,
    Remember,
    Request,
)

from sottovoce.errors import DataError, MessageRefused
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.net.transports.transport import START_SECONDS
from sottovoce.net.wire import PEER_EXCHANGE, decode_exchange, encode_exchange
from sottovoce.node.gossip.messenger import Messenger
from sottovoce.node.host import Host
from sottovoce.node.network import Discovery
from sottovoce.ops import RateLimitedLog

_log = logging.getLogger(__name__)
_WAIT = "membership"
_FAREWELL_SECONDS = 1.0
_MAX_FAILING_PEERS = 64


@dataclass(frozen=True, slots=True)
class PeerFailures:
    """Record of a peer's consecutive failed exchanges.

    Attributes:
        failures: number of consecutive failures.
        last_failure: description of the last failure.
    """

    failures: int = 0
    last_failure: str = ""


class PeerSampler:
    """One device's peer sampler: exchanges views once per period, and updates the learner's peers.

    Args:
        host: the agent's surroundings.
        membership: the membership state machine.
        book: persistent store of contacts.
        boots: persistent store of the incarnation.
        messenger: connection to the peers.
        discovery: search for contacts in other sources.

    Attributes:
        failing_peers: failure records, by node id, of the last 64 peers with which an exchange failed.
        duplicates: number of received records that another device signed with this device's key.
    """

    def __init__(
        self,
        *,
        host: Host,
        membership: Membership,
        book: AddressBook,
        boots: BootCounter,
        messenger: Messenger,
        discovery: Discovery,
    ) -> None:
        self._host = host
        self.membership = membership
        self.discovery = discovery
        self._book = book
        self._boots = boots
        self._messenger = messenger
        self._replace_peers: Callable[[list[Peer]], Coroutine[Any, Any, None]] | None = None
        self._loop: asyncio.AbstractEventLoop
        self._started_at = float("-inf")
        self._wake = asyncio.Event()
        self._stopping = False
        self._peers: list[Peer] | None = None
        self.failing_peers: OrderedDict[str, PeerFailures] = OrderedDict()
        self._expelled_peers: frozenset[str] = frozenset()
        self.duplicates = 0
        self._sparse_log = RateLimitedLog(_log)

    async def run(self, replace_peers: Callable[[list[Peer]], Coroutine[Any, Any, None]]) -> None:
        """Exchange views once per period, until stopped.

        Args:
            replace_peers: called with the learner's peers when they change.
        """
        self._replace_peers, self._loop = replace_peers, asyncio.get_running_loop()
        self._started_at, waits = self._loop.time(), self._messenger.waits
        self._host.spawn(self.discovery.run(lambda: len(self.membership.view), self._learn, waits))
        while not self._stopping:
            now = self._loop.time()
            if now >= self.membership.due:
                self._carry_out(self.membership.tick(now))
            pause = max(0.0, self.membership.due - self._loop.time())
            waits.begin(_WAIT, "the next view exchange", pause)
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except TimeoutError:
                continue
        waits.end(_WAIT)

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping = True
        self.discovery.stop()
        self._wake.set()

    def receive(self, sender: str, payload: bytes) -> bytes:
        """Answer a peer's exchange request.

        Raises:
            MessageRefused: if the request is malformed or too frequent, or the peer's own record is invalid; nothing
                has changed.
        """
        reply, effects = self.membership.on_request(sender, decode_exchange(payload), self._loop.time())
        self._carry_out(effects)
        return encode_exchange(reply)

    def note_success(self, peer: str) -> None:
        """Record that a message was delivered to a peer."""
        self.membership.on_success(peer)

    def note_failure(self, peer: str) -> None:
        """Record that a message could not be delivered to a peer."""
        self.membership.on_missed(peer, self._loop.time())
        self._carry_out([])

    def mark_reachable(self, peer: str | None) -> None:
        """Record that a peer is reachable again; None means all peers."""
        if self._replace_peers is not None:
            self.membership.on_peer_reachable(peer, self._loop.time())
            self._carry_out([])

    def expel(self, peers: Collection[str]) -> None:
        """Exclude these devices from peer sampling from now on."""
        self._expelled_peers = frozenset(peers)
        self.membership.expel(peers, asyncio.get_running_loop().time())
        for peer in peers:
            self.failing_peers.pop(peer, None)
        if self._replace_peers is not None:  # before `run` is called, there are no peers to report
            self._carry_out([])

    async def leave(self) -> None:
        """Announce the departure to the warm peers, which forward it. This may fail, and takes at most two seconds."""
        self.stop()
        await self.discovery.close()
        if self._replace_peers is None or self.membership.record.leaving:
            return
        farewells = [
            self._send_farewell(effect)
            for effect in self.membership.leave(self._loop.time())
            if isinstance(effect, Request)
        ]
        await asyncio.gather(*farewells)

    async def _send_farewell(self, request: Request) -> None:
        node = request.contact.node_id
        raw = self._messenger.seal(node, PEER_EXCHANGE, encode_exchange(request.exchange))
        with contextlib.suppress(DeliveryFailed):
            peer = self._host.make_peer(node, request.contact.endpoints)
            await self._messenger.transport.deliver(peer, raw, _FAREWELL_SECONDS)

    def close(self) -> None:
        """Close the address book."""
        self._book.close()

    def _learn(self, source: str, contacts: Sequence[Contact]) -> None:
        self.membership.learn(source, contacts, self._loop.time())
        self._wake.set()

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Request():
                    self._host.spawn(self._request(effect))
                case Remember(contact):
                    self._host.spawn(self._store_contact(contact))
                case DuplicateIdentity(incarnation):
                    self.duplicates += 1
                    _log.error("duplicate-identity %s", effect)
                    self._host.spawn(self._adopt_incarnation(incarnation))
        peers = [self._host.make_peer(contact.node_id, contact.endpoints) for contact in self.membership.warm()]
        if self._replace_peers is not None and peers != self._peers:
            self._peers = peers
            self._host.spawn(self._replace_peers(peers))
        self._wake.set()

    async def _request(self, request: Request) -> None:
        contact, messenger = request.contact, self._messenger
        raw = messenger.seal(contact.node_id, PEER_EXCHANGE, encode_exchange(request.exchange))
        try:
            messenger.counters.wire_bytes += len(raw)
            peer = self._host.make_peer(contact.node_id, contact.endpoints)
            answer = await messenger.transport.deliver(peer, raw, messenger.timeout)
            effects = self.membership.on_reply(contact.node_id, decode_exchange(answer), self._loop.time())
        except (DeliveryFailed, MessageRefused) as failure:
            if contact.node_id in self._expelled_peers:
                return  # the peer was expelled during the exchange
            self.failing_peers[contact.node_id] = self._count_failure(contact.node_id, failure)
            if len(self.failing_peers) > _MAX_FAILING_PEERS:
                self.failing_peers.popitem(last=False)
            is_peer_at_fault = not isinstance(failure, DeliveryFailed) or failure.left
            self._carry_out(self.membership.on_failure(contact.node_id, self._loop.time(), blamed=is_peer_at_fault))
            return
        self.failing_peers.pop(contact.node_id, None)
        self._carry_out(effects)

    def _count_failure(self, node: str, failure: DeliveryFailed | MessageRefused) -> "PeerFailures":
        """Count a failure, log each cause at most once a minute, and return the peer's updated failure record."""
        cause = failure.cause if isinstance(failure, DeliveryFailed) else "other"
        self._messenger.counters.failures[cause] += 1
        if cause != "unreachable" or self._loop.time() >= self._started_at + START_SECONDS:
            self._sparse_log.log(logging.WARNING, cause, "exchange-failed cause=%s %s", cause, failure)
        previous = self.failing_peers.get(node, PeerFailures())
        return PeerFailures(previous.failures + 1, str(failure))

    async def _store_contact(self, contact: Contact) -> None:
        now = self._loop.time()
        try:
            await self._host.run_on_disk(lambda: self._book.remember(contact, now))
        except DataError as error:
            _log.warning("contact-forgotten %s", error)  # the book is only a cache: the seeds and the view still work

    async def _adopt_incarnation(self, incarnation: int) -> None:
        await self._host.run_on_disk(lambda: self._boots.advance(incarnation))
        self.membership.adopt(incarnation, self._loop.time())
