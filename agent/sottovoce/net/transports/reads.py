"""Messages that are being received: a limited number at a time, so a slow sender cannot keep out the others."""

import asyncio
from collections import Counter
from collections.abc import Awaitable
from typing import Any, TypeVar

_T = TypeVar("_T")


class ReadDisplaced(Exception):
    """A message was given up because it arrived slowly while other messages were waiting."""


class Reads:
    """The messages that a transport is receiving; together with their size limit, they bound the memory that they use.

    The receipt of a message that is given up is not cancelled, because gRPC would never free that message. The
    transport ends its call instead, and thereby the receipt.

    If one more arrives than the limit allows, the oldest message of the peer that has the most is given up. A message
    that has already arrived is read at once, so it is never the oldest for long, however many peers send slowly.

    Args:
        limit: maximum number of messages that are received at a time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reading: dict[asyncio.Timeout, str] = {}
        self._receiving: set[asyncio.Future[Any]] = set()

    async def read(self, peer: str, message: Awaitable[_T]) -> _T:
        """Return a peer's message once it has arrived.

        Args:
            peer: the peer's node id.
            message: receives the message when it is awaited, and no sooner.

        Raises:
            ReadDisplaced: if the message was given up.
        """
        if len(self._reading) >= self._limit:
            self._give_up_one()
        deadline, receiving = asyncio.timeout(None), asyncio.ensure_future(message)
        self._receiving.add(receiving)
        receiving.add_done_callback(self._forget)
        try:
            async with deadline:
                self._reading[deadline] = peer
                return await asyncio.shield(receiving)
        except TimeoutError as error:
            if deadline.expired():
                raise ReadDisplaced from error
            raise
        finally:
            self._reading.pop(deadline, None)

    def _forget(self, receiving: "asyncio.Future[Any]") -> None:
        self._receiving.discard(receiving)
        if not receiving.cancelled():
            receiving.exception()  # if the message was given up, this is the only place that retrieves it

    def _give_up_one(self) -> None:
        counts = Counter(self._reading.values())
        most = max(counts.values())
        oldest = next(deadline for deadline, peer in self._reading.items() if counts[peer] == most)
        del self._reading[oldest]
        oldest.reschedule(asyncio.get_running_loop().time())
