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
    """Whether an address is host:port, and neither mqtt:REALM nor NAME://… of another package's transport."""
    return not address.startswith("mqtt:") and "://" not in address


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer to send to.

    Attributes:
        id: node id.
        address: host:port, or mqtt:REALM, the one to try first.
        name: the DNS name its certificate must carry.
        others: addresses to try after it.
    """

    id: str
    address: str
    name: str
    others: tuple[str, ...] = ()


class DeliveryFailed(NetworkError):
    """One attempt to deliver failed; the same bytes may be tried again.

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
        trouble: why no one can reach this device at the moment; empty if nothing is known to be wrong.
        duplicates: how often another device was seen with this device's identity.
        troubles: where there are several transports, the trouble of each, in their order.
    """

    handshakes: int
    refused: int
    trouble: str = ""
    duplicates: int = 0
    troubles: tuple[str, ...] = field(default=(), compare=False)


class Transport(Protocol):
    """Sends and receives messages: in any order, once, twice or not at all, but never altered or misattributed."""

    @property
    def largest(self) -> int:
        """Bytes of the largest message it takes at once."""
        ...

    def reaches(self, address: str) -> bool:
        """Whether the transport can reach this address."""
        ...

    async def start(self, receive: Receive) -> None:
        """Listen.

        Raises:
            NetworkError: if the address cannot be used.
        """
        ...

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Hand a message over and return the answer.

        Args:
            peer: the recipient, whose identity is verified.
            message: at most `largest` bytes.
            timeout: seconds; the transport itself enforces it.

        Raises:
            DeliveryFailed: if the message is not known to have arrived.
        """
        ...

    def listener(self) -> Listener:
        """Counters of the listening side."""
        ...

    async def stop(self, grace: float) -> None:
        """Stop listening, let calls in progress end within `grace` seconds, close."""
        ...
