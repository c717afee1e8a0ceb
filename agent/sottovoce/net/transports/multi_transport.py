"""A combination of a device's transports that tries a peer's addresses in turn and splits oversized messages."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from sottovoce.errors import InternalError, MessageRefused
from sottovoce.net.transports.reassembly import Reassembly
from sottovoce.net.transports.transport import DeliveryFailed, Listener, Peer, Receive, Transport
from sottovoce.net.wire import SplitMessage, is_part
from sottovoce.net.wire.arrays import MAX_ENVELOPE_BYTES

_K = TypeVar("_K")
_V = TypeVar("_V")
_MAX_REMEMBERED = 256
_PART_OVERHEAD = 64  # bytes that the message digest and the part number add to each part
_RETRY_ELSEWHERE = {"unreachable", "timeout", "tls", "rejected"}  # failures after which another transport may succeed


class MultiTransport:
    """An implementation of sottovoce.net.transports.Transport that combines several transports.

    If one transport fails to deliver a message, the next one is tried within the same deadline. The address that worked
    last for a peer is tried first. A message that is sent in parts resumes at its first missing part, on any transport
    and in any attempt.

    Args:
        transports: this device's transports, the preferred one first; also available as an attribute.
        admit: function called with (sender, size in bytes) for every message and part before it is decoded; it may
            raise MessageRefused.
        on_refusal: function called with (sender, size in bytes, refusal) for every message and part that is refused.

    Attributes:
        on_peer_reachable: function called with the node id of a peer that is reachable again, or with None for all
            peers.
    """

    def __init__(
        self,
        transports: Sequence[Transport],
        admit: Callable[[str, int], None] = lambda _sender, _size: None,
        on_refusal: Callable[[str, int, MessageRefused], None] = lambda _sender, _size, _refusal: None,
    ) -> None:
        self.transports = tuple(transports)
        self._admit = admit
        self._on_refusal = on_refusal
        self.on_peer_reachable: Callable[[str | None], None] = lambda _: None
        self._receive: Receive | None = None
        self._last_addresses: OrderedDict[str, str] = OrderedDict()
        self._reassembly = Reassembly()
        self._next_parts: OrderedDict[tuple[str, bytes], int] = OrderedDict()

    @property
    def largest(self) -> int:
        """Size in bytes of the largest message that the wire format allows."""
        return MAX_ENVELOPE_BYTES

    def reaches(self, address: str) -> bool:
        """Return whether any of the transports can reach this address."""
        return any(transport.reaches(address) for transport in self.transports)

    async def start(self, receive: Receive) -> None:
        """Start all transports; see Transport.start."""
        self._receive = receive
        for transport in self.transports:
            await transport.start(self._receive_or_refuse)

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Deliver a message over one of the transports; see Transport.deliver."""
        routes = self._routes(peer)
        if not routes:
            addresses = ", ".join((peer.address, *peer.others))
            raise DeliveryFailed(
                "unreachable",
                f"peer {peer.id} at {addresses}: none of this device's transports can reach this peer; "
                "see transport.use",
            )
        deadline = time.monotonic() + timeout
        for remaining in range(len(routes), 0, -1):
            address, transport = routes[-remaining]
            share = (deadline - time.monotonic()) / remaining
            try:
                answer = await self._deliver_by(transport, Peer(peer.id, address, peer.name), message, max(0.01, share))
            except DeliveryFailed as failure:
                if remaining == 1 or failure.cause not in _RETRY_ELSEWHERE:
                    raise
                continue
            _remember(self._last_addresses, peer.id, address, _MAX_REMEMBERED)
            return answer
        raise InternalError("no route is left although none has failed: this is a bug; please report it")

    def listener(self) -> Listener:
        """Return the combined counters and health of all transports' listening sides."""
        listeners = [transport.listener() for transport in self.transports]
        return Listener(
            sum(listener.handshakes for listener in listeners),
            sum(listener.refused for listener in listeners),
            "; ".join(listener.trouble for listener in listeners if listener.trouble),
            sum(listener.duplicates for listener in listeners),
            tuple(sorted({sender for listener in listeners for sender in listener.flooding})),
            tuple(listener.trouble for listener in listeners),
        )

    async def stop(self, grace: float) -> None:
        """Stop all transports concurrently."""
        await asyncio.gather(*(transport.stop(grace) for transport in self.transports))
        self._reassembly.clear()

    def _routes(self, peer: Peer) -> list[tuple[str, Transport]]:
        """Return a peer's addresses with their transports, in the order in which to try them."""
        routes = [
            (address, transport)
            for transport in self.transports
            for address in (peer.address, *peer.others)
            if transport.reaches(address)
        ]
        last = self._last_addresses.get(peer.id)
        return sorted(routes, key=lambda route: route[0] != last)

    async def _deliver_by(self, transport: Transport, peer: Peer, message: bytes, patience: float) -> bytes:
        if len(message) <= transport.largest:
            return await _deliver(transport, peer, message, patience)
        deadline = time.monotonic() + patience
        split = SplitMessage(message, transport.largest - _PART_OVERHEAD)
        index = self._next_parts.pop((peer.id, split.digest), 0) % split.count
        while (remaining := deadline - time.monotonic()) > 0:
            _remember(self._next_parts, (peer.id, split.digest), index, _MAX_REMEMBERED)
            answer = await _deliver(transport, peer, split.part(index), remaining)
            try:
                next_index = split.next_part(answer)
            except MessageRefused as refusal:
                raise DeliveryFailed("other", f"peer {peer.id} at {peer.address}: {refusal}") from refusal
            if next_index is None:
                self._next_parts.pop((peer.id, split.digest), None)
                return answer
            index = next_index
        raise DeliveryFailed(
            "timeout", f"peer {peer.id} at {peer.address}: only {index} of {split.count} parts arrived in time"
        )

    async def _receive_or_refuse(self, sender: str, raw: bytes | None) -> bytes:
        try:
            return await self._handle_received(sender, raw)
        except MessageRefused as refusal:
            self._on_refusal(sender, len(raw or b""), refusal)
            raise

    async def _handle_received(self, sender: str, raw: bytes | None) -> bytes:
        """Handle a message or a part from any transport, and return the answer or a receipt for the part."""
        if self._receive is None:
            raise InternalError("a message arrived before the agent was ready: this is a bug; please report it")
        self._admit(sender, len(raw or b""))
        if raw is None or not is_part(raw):
            return await self._receive(sender, raw)
        return await self._reassembly.receive(sender, raw, self._receive)


def _remember(memory: OrderedDict[_K, _V], key: _K, value: _V, limit: int) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > limit:
        memory.popitem(last=False)


async def _deliver(transport: Transport, peer: Peer, message: bytes, seconds: float) -> bytes:
    """Deliver a message over one transport.

    A plug-in's transport may also raise the errors of its network library, each of which is a failed delivery.
    """
    try:
        return await transport.deliver(peer, message, seconds)
    except TimeoutError as error:
        raise DeliveryFailed("timeout", f"peer {peer.id} at {peer.address}: no answer within {seconds:g} s") from error
    except (OSError, EOFError) as error:
        raise DeliveryFailed("unreachable", f"peer {peer.id} at {peer.address}: {error}") from error
