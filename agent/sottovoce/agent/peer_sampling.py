"""Peer sampling: the membership's exchanges over this device's transport, and the choice of the learner's peers.

It runs on the event loop; only the address book is written elsewhere, because the disk may be slow.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import Executor
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

from sottovoce.agent.discovery import Discovery
from sottovoce.agent.wait_status import Waits
from sottovoce.errors import DataError, MessageRefused
from sottovoce.observe import Counters, RateLimitedLog
from sottovoce.transport import DeliveryFailed, Peer, Transport
from sottovoce.wire import PEER_EXCHANGE, decode_exchange, encode_exchange

_log = logging.getLogger(__name__)
_WAIT = "membership"
_FAREWELL_SECONDS = 1.0
_MAX_TROUBLES = 64


@dataclass(frozen=True, slots=True)
class Door:
    """Interface of an agent for peer sampling.

    Attributes:
        seal: makes the envelope of a payload for (recipient, payload type, payload).
        peer: function that returns the peer of a contact.
        meet: called with the learner's peers when they change.
        spawn: runs a coroutine in the background.
        disk: executor of writes.
        waits: the metric of waits in progress.
    """

    seal: Callable[[str, str, bytes], bytes]
    peer: Callable[[Contact], Peer]
    meet: Callable[[list[Peer]], Coroutine[Any, Any, None]]
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    disk: Executor
    waits: Waits


@dataclass(frozen=True, slots=True)
class Trouble:
    """Peer with which no exchange succeeds.

    Attributes:
        failures: number of consecutive failures.
        last: description of the last failure.
    """

    failures: int = 0
    last: str = ""


class PeerSampling:
    """Peer sampling of one device.

    Args:
        membership: the state machine.
        book: store of contacts.
        boots: store of the incarnation.
        transport: transport of the exchanges.
        counters: counters of the exchanged bytes.
        timeout: timeout of one exchange, in seconds.
        discovery: search for contacts in other sources.

    Attributes:
        troubles: peers with whom the last exchanges failed, by node id; the newest 64.
        duplicates: number of received records that another device signed with this device's key.
    """

    def __init__(
        self,
        *,
        membership: Membership,
        book: AddressBook,
        boots: BootCounter,
        transport: Transport,
        counters: Counters,
        timeout: float,
        discovery: Discovery,
    ) -> None:
        self.membership = membership
        self.discovery = discovery
        self._book = book
        self._boots = boots
        self._transport = transport
        self._counters = counters
        self._timeout = timeout
        self._door: Door
        self._loop: asyncio.AbstractEventLoop
        self._wake = asyncio.Event()
        self._stopping = False
        self._met: list[Peer] | None = None
        self.troubles: OrderedDict[str, Trouble] = OrderedDict()
        self._expelled: frozenset[str] = frozenset()
        self.duplicates = 0
        self._sparse_log = RateLimitedLog(_log)

    async def run(self, door: Door) -> None:
        """Exchange views, period by period, until stopped."""
        self._door, self._loop = door, asyncio.get_running_loop()
        door.spawn(self.discovery.run(lambda: len(self.membership.view), self._learn, door.waits))
        while not self._stopping:
            now = self._loop.time()
            if now >= self.membership.due:
                self._perform(self.membership.tick(now))
            pause = max(0.0, self.membership.due - self._loop.time())
            self._door.waits.begin(_WAIT, "the next exchange of views", pause)
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except TimeoutError:
                continue
        self._door.waits.end(_WAIT)

    def stop(self) -> None:
        """Let `run` end."""
        self._stopping = True
        self.discovery.stop()
        self._wake.set()

    def receive(self, sender: str, payload: bytes) -> bytes:
        """Answer a peer's exchange.

        Raises:
            MessageRefused: if it is malformed or too frequent, or the peer's own record is invalid; nothing changed.
        """
        reply, effects = self.membership.on_request(sender, decode_exchange(payload), self._loop.time())
        self._perform(effects)
        return encode_exchange(reply)

    def note_success(self, peer: str) -> None:
        """Note that a link has delivered something."""
        self.membership.on_success(peer)

    def note_failure(self, peer: str) -> None:
        """Note that a link could not deliver something."""
        self.membership.on_missed(peer, self._loop.time())
        self._perform([])

    def note_reachable(self, peer: str | None) -> None:
        """Note that a peer, or for None every peer, is reachable again."""
        if hasattr(self, "_door"):
            self.membership.on_return(peer, self._loop.time())
            self._perform([])

    def expel(self, peers: Collection[str]) -> None:
        """Exclude these devices from now on."""
        self._expelled = frozenset(peers)
        self.membership.expel(peers, asyncio.get_running_loop().time())
        for peer in peers:
            self.troubles.pop(peer, None)
        if hasattr(self, "_door"):  # before `run`, there are no peers to report
            self._perform([])

    async def leave(self) -> None:
        """Announce the departure to the warm peers, which forward it: takes two seconds at most, and may fail."""
        self.stop()
        await self.discovery.close()
        if not hasattr(self, "_door") or self.membership.record.leaving:
            return
        farewells = [
            self._send_farewell(effect)
            for effect in self.membership.leave(self._loop.time())
            if isinstance(effect, Request)
        ]
        await asyncio.gather(*farewells)

    async def _send_farewell(self, request: Request) -> None:
        node = request.contact.node_id
        raw = self._door.seal(node, PEER_EXCHANGE, encode_exchange(request.exchange))
        with contextlib.suppress(DeliveryFailed):
            await self._transport.deliver(self._door.peer(request.contact), raw, _FAREWELL_SECONDS)

    def close(self) -> None:
        """Close the address book."""
        self._book.close()

    def _learn(self, source: str, contacts: Sequence[Contact]) -> None:
        self.membership.learn(source, contacts, self._loop.time())
        self._wake.set()

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Request():
                    self._door.spawn(self._request(effect))
                case Remember(contact):
                    self._door.spawn(self._remember(contact))
                case DuplicateIdentity(incarnation):
                    self.duplicates += 1
                    _log.error("duplicate-identity %s", effect)
                    self._door.spawn(self._adopt(incarnation))
        met = [self._door.peer(contact) for contact in self.membership.warm()]
        if met != self._met:
            self._met = met
            self._door.spawn(self._door.meet(met))
        self._wake.set()

    async def _request(self, request: Request) -> None:
        contact = request.contact
        raw = self._door.seal(contact.node_id, PEER_EXCHANGE, encode_exchange(request.exchange))
        try:
            self._counters.wire_bytes += len(raw)
            answer = await self._transport.deliver(self._door.peer(contact), raw, self._timeout)
            effects = self.membership.on_reply(contact.node_id, decode_exchange(answer), self._loop.time())
        except (DeliveryFailed, MessageRefused) as failure:
            if contact.node_id in self._expelled:
                return  # the peer was expelled while it was being asked
            self.troubles[contact.node_id] = self._count_failure(contact.node_id, failure)
            if len(self.troubles) > _MAX_TROUBLES:
                self.troubles.popitem(last=False)
            blamed = not isinstance(failure, DeliveryFailed) or failure.left
            self._perform(self.membership.on_failure(contact.node_id, self._loop.time(), blamed=blamed))
            return
        self.troubles.pop(contact.node_id, None)
        self._perform(effects)

    def _count_failure(self, node: str, failure: DeliveryFailed | MessageRefused) -> "Trouble":
        """Count a failure, and log each cause once a minute."""
        cause = failure.cause if isinstance(failure, DeliveryFailed) else "other"
        self._counters.failures[cause] += 1
        self._sparse_log.say(logging.WARNING, cause, "exchange-failed cause=%s %s", cause, failure)
        before = self.troubles.get(node, Trouble())
        return Trouble(before.failures + 1, str(failure))

    async def _remember(self, contact: Contact) -> None:
        now = self._loop.time()
        try:
            await self._loop.run_in_executor(self._door.disk, lambda: self._book.remember(contact, now))
        except DataError as error:
            _log.warning("contact-forgotten %s", error)  # a cache: seeds and the view continue without it

    async def _adopt(self, incarnation: int) -> None:
        await self._loop.run_in_executor(self._door.disk, lambda: self._boots.advance(incarnation))
        self.membership.adopt(incarnation, self._loop.time())
