"""The interface that every transport implements."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from sottovoce.errors import NetworkError

START_SECONDS = 10.0
"""For how long after its start a device does not report peers that it cannot reach: they may be starting too."""

Receive = Callable[[str, bytes | None], Awaitable[bytes]]
"""Handler for received messages. Its arguments are the authenticated sender's node id and the message, which is None if
it exceeded the transport's limit or arrived incomplete. It returns the answer once the message's effect is durable. It
raises MessageRefused if it refuses the message; it always refuses None."""


def is_direct(address: str) -> bool:
    """Return whether an address is host:port rather than mqtt:REALM or the NAME://… of a plug-in transport."""
    return not address.startswith("mqtt:") and "://" not in address


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer to which messages are delivered.

    Attributes:
        id: the peer's node id.
        address: the address to try first, for example host:port or mqtt:REALM.
        name: DNS name that the peer's certificate must contain.
        others: addresses to try after `address`.
    """

    id: str
    address: str
    name: str
    others: tuple[str, ...] = ()


class DeliveryFailed(NetworkError):
    """Raised when one attempt to deliver a message fails; the same bytes may be sent again.

    Attributes:
        cause: one of a fixed set of words: unreachable, timeout, tls, rejected, refused, busy, other.
        left: whether the peer may have caused the failure. If a message never left this device, or was lost because
            either side was not connected to a broker, it is retried soon and the failure does not count against the
            peer.
    """

    def __init__(self, cause: str, explanation: str, *, left: bool = True) -> None:
        super().__init__(explanation)
        self.cause = cause
        self.left = left


@dataclass(frozen=True, slots=True)
class Listener:
    """Counters and health of a transport's listening side.

    Attributes:
        handshakes: number of accepted connections.
        refused: number of accepted connections that never led to a call, for example because the certificate was wrong
            or missing, or because the caller did not use TLS.
        trouble: reason why no device can currently reach this one; empty if no problem is known.
        duplicates: number of times that another device was seen with this device's identity.
        flooding: node ids of the senders from which nothing is received for a while, because they flood this device.
        troubles: if there are several transports, the trouble of each of them, in order.
    """

    handshakes: int
    refused: int
    trouble: str = ""
    duplicates: int = 0
    flooding: tuple[str, ...] = ()
    troubles: tuple[str, ...] = field(default=(), compare=False)


class Transport(Protocol):
    """Interface of a transport, which sends and receives messages.

    Messages may be lost, duplicated or reordered, but are never altered or attributed to the wrong sender.
    """

    @property
    def largest(self) -> int:
        """Size in bytes of the largest message that the transport accepts."""
        ...

    def reaches(self, address: str) -> bool:
        """Return whether the transport can reach this address."""
        ...

    async def start(self, receive: Receive) -> None:
        """Listen for messages, and pass each one to `receive`.

        Raises:
            NetworkError: if the transport cannot listen on its address.
        """
        ...

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Deliver a message and return the answer.

        Args:
            peer: the recipient, whose identity the transport verifies.
            message: the message, at most `largest` bytes.
            timeout: timeout in seconds, which the transport itself enforces.

        Raises:
            DeliveryFailed: if there is no confirmation that the message arrived.
        """
        ...

    def listener(self) -> Listener:
        """Return the counters and health of the listening side."""
        ...

    async def stop(self, grace: float) -> None:
        """Stop listening, allow calls in progress `grace` seconds to finish, and close all connections."""
        ...
