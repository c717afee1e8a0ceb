"""Exchanges: this device's requests that await an answer."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from sottovoce.net.wire.v1.mqtt_pb2 import Content


class PeerUnavailable(Exception):
    """The result of an exchange whose peer, or the path to it, is unavailable.

    Attributes:
        left: see DeliveryFailed.left.
    """

    def __init__(self, reason: str, *, left: bool = True) -> None:
        super().__init__(reason)
        self.left = left


class Exchanges:
    """One device's pending exchanges. Each ends with an answer or with the reason why there is none."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.newest = 0
        """Number of the newest exchange."""
        self._waiting: dict[int, tuple[str, asyncio.Future[Content | PeerUnavailable]]] = {}

    @contextmanager
    def begin(self, peer: str) -> Iterator[tuple[int, "asyncio.Future[Content | PeerUnavailable]"]]:
        """Begin an exchange with a peer, and yield its number and a future for its result."""
        number = self.newest = next(self._numbers)
        future: asyncio.Future[Content | PeerUnavailable] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (peer, future)
        try:
            yield number, future
        finally:
            del self._waiting[number]

    def accept_answer(self, peer: str, content: Content) -> None:
        """Accept a peer's answer; ignore it if it is unexpected or comes from a different device."""
        recipient, future = self._waiting.get(content.exchange, ("", None))
        if future is not None and recipient == peer and not future.done():
            future.set_result(content)

    def end(self, reason: str, peer: str | None = None, *, until: int | None = None, left: bool = True) -> None:
        """End the exchanges with this peer, or with all peers, without an answer.

        Args:
            reason: why the exchanges end.
            peer: the peer's node id; None for all peers.
            until: number of the last exchange to end; None for all exchanges.
            left: see DeliveryFailed.left.
        """
        for number, (recipient, future) in self._waiting.items():
            if peer in (None, recipient) and (until is None or number <= until) and not future.done():
                future.set_result(PeerUnavailable(reason, left=left))
