"""Interface of every transport."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from sottovoce.errors import NetworkError

Receive = Callable[[str, bytes | None], Awaitable[bytes]]
"""Handler of a received message: takes the authenticated sender's node id and the bytes sent, or None if they exceeded
the transport's limit or arrived incomplete; returns the answer once the effect is durable. Raises MessageRefused if the
message is refused, as None always is."""


def is_direct(address: str) -> bool:
    """Return whether an address is host:port, and neither mqtt:REALM nor NAME://… of another package's transport."""
    return not address.startswith("mqtt:") and "://" not in address


@dataclass(frozen=True, slots=True)
class Peer:
    """Recipient of messages.

    Attributes:
        id: node id of the peer.
        address: host:port, or mqtt:REALM, the one to try first.
        name: DNS name that its certificate must carry.
        others: addresses to try after `address`.
    """

    id: str
    address: str
    name: str
    others: tuple[str, ...] = ()


class DeliveryFailed(NetworkError):
    """Error of one failed attempt to deliver; the same bytes may be tried again.

    Attributes:
        cause: a stable word: unreachable, timeout, tls, rejected, refused, busy, other.
        left: whether the peer may be the reason. A message that never left this device, or was lost because one of the
            two was not connected to a broker, is tried again soon, and is not held against the peer.
    """

    def __init__(self, cause: str, explanation: str, *, left: bool = True) -> None:
        super().__init__(explanation)
        self.cause = cause
        self.left = left


@dataclass(frozen=True, slots=True)
class Listener:
    """Counters of the listening side.

    Attributes:
        handshakes: connections accepted.
        refused: accepted connections that never led to a call: a wrong certificate, none, or no TLS at all.
        trouble: reason why no device can reach this one at present; empty if nothing is known to be wrong.
        duplicates: number of sightings of another device with this device's identity.
        troubles: where there are several transports, the trouble of each, in their order.
    """

    handshakes: int
    refused: int
    trouble: str = ""
    duplicates: int = 0
    troubles: tuple[str, ...] = field(default=(), compare=False)


class Transport(Protocol):
    """Sender and receiver of messages: in any order, once, twice or not at all, never altered or misattributed."""

    @property
    def largest(self) -> int:
        """Bytes of the largest message it takes at once."""
        ...

    def reaches(self, address: str) -> bool:
        """Return whether the transport can reach this address."""
        ...

    async def start(self, receive: Receive) -> None:
        """Listen for messages, and pass each to `receive`.

        Raises:
            NetworkError: if the address cannot be used.
        """
        ...

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Deliver a message and return the answer.

        Args:
            peer: the recipient, whose identity is verified.
            message: at most `largest` bytes.
            timeout: seconds; the transport itself enforces it.

        Raises:
            DeliveryFailed: if the message is not known to have arrived.
        """
        ...

    def listener(self) -> Listener:
        """Return counters of the listening side."""
        ...

    async def stop(self, grace: float) -> None:
        """Stop listening, let calls in progress end within `grace` seconds, and close."""
        ...
