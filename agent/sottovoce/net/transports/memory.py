"""In-memory transport for agents that share an event loop, and for tests of code that uses transports."""

import asyncio

from sottovoce.errors import MessageRefused, NetworkError, SottovoceError
from sottovoce.net.transports.transport import DeliveryFailed, Listener, Peer, Receive, is_direct

_MAX_MESSAGE_BYTES = 2**18
_MAX_CALLS_PER_DEVICE = 4


class Exchange:
    """A registry through which the in-memory transports of one process find one another."""

    def __init__(self) -> None:
        self.listening: dict[str, MemoryTransport] = {}


class MemoryTransport:
    """An in-memory implementation of sottovoce.net.transports.Transport.

    Args:
        exchange: the exchange shared with the peers.
        node_id: this device's node id.
        address: address to listen on, in any form.
    """

    def __init__(self, exchange: Exchange, node_id: str, address: str) -> None:
        self._exchange = exchange
        self._id = node_id
        self._address = address
        self._receive: Receive | None = None
        self._calls: dict[str, int] = {}
        self._handshakes = 0
        self._sending: set[asyncio.Timeout] = set()

    @property
    def largest(self) -> int:
        """The message size limit: 256 KiB, as in the gRPC transport."""
        return _MAX_MESSAGE_BYTES

    def reaches(self, address: str) -> bool:
        """Return whether the address is neither a broker's nor a plug-in transport's."""
        return is_direct(address)

    async def start(self, receive: Receive) -> None:
        """Listen for messages; see Transport.start."""
        if self._address in self._exchange.listening:
            raise NetworkError(f"{self._address}: this address is already in use; use a different one")
        self._receive = receive
        self._exchange.listening[self._address] = self

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Deliver a message; see Transport.deliver."""
        recipient = self._exchange.listening.get(peer.address)
        prefix = f"peer {peer.id} at {peer.address}"
        if recipient is None:
            raise DeliveryFailed("unreachable", f"{prefix}: nothing listens there")
        if recipient._id != peer.id:
            raise DeliveryFailed("tls", f"{prefix}: another device answered at this address")
        try:
            async with asyncio.timeout(timeout) as limit:
                self._sending.add(limit)
                try:
                    return await recipient._accept(self._id, message)
                finally:
                    self._sending.discard(limit)
        except TimeoutError as error:
            raise DeliveryFailed("timeout", f"{prefix}: no answer within {timeout:g} s") from error
        except MessageRefused as refusal:
            raise DeliveryFailed(
                "refused", f"{prefix}: the peer refused the message: {refusal.reason}: {refusal}"
            ) from refusal
        except DeliveryFailed as failure:
            raise DeliveryFailed(failure.cause, f"{prefix}: {failure}") from failure
        except SottovoceError as error:
            raise DeliveryFailed("other", f"{prefix}: the peer failed while handling the message") from error

    def listener(self) -> Listener:
        """Return the counters of the listening side, which never refuses a connection."""
        return Listener(self._handshakes, 0)

    async def stop(self, grace: float) -> None:
        """Stop accepting messages, and give calls in progress `grace` seconds to finish."""
        for limit in self._sending:
            limit.reschedule(asyncio.get_running_loop().time() + grace)
        if self._exchange.listening.get(self._address) is self:
            del self._exchange.listening[self._address]
        for _ in range(100):
            if not any(self._calls.values()):
                return
            await asyncio.sleep(grace / 100)

    async def _accept(self, sender: str, message: bytes) -> bytes:
        if self._receive is None or self._calls.get(sender, 0) >= _MAX_CALLS_PER_DEVICE:
            raise DeliveryFailed("busy", "too many concurrent calls from this device")
        self._handshakes += sender not in self._calls
        self._calls[sender] = self._calls.get(sender, 0) + 1
        try:
            return await self._receive(sender, message if len(message) <= _MAX_MESSAGE_BYTES else None)
        finally:
            self._calls[sender] -= 1
