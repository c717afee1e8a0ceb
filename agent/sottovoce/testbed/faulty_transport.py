"""A transport that loses, repeats and delays messages, around a real one."""

import asyncio
import random

from sottovoce.simulate import Faults
from sottovoce.transport import DeliveryFailed, Listener, Peer, Receive, Transport


class FaultyTransport:
    """Implements sottovoce.transport.Transport.

    Args:
        inner: carries what is not lost.
        faults: how often what goes wrong.
        seed: of the faults.
    """

    def __init__(self, inner: Transport, faults: Faults, seed: int) -> None:
        self._inner = inner
        self._faults = faults
        self._random = random.Random(seed)

    async def start(self, receive: Receive) -> None:
        """Listen, undisturbed."""
        await self._inner.start(receive)

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Deliver, if fate allows; the message or only its answer may be lost."""
        faults = self._faults
        await asyncio.sleep(max(0.0, faults.delay + self._random.uniform(-1, 1) * faults.delay_spread))
        if self._random.random() < faults.loss:
            raise DeliveryFailed("injected", f"peer {peer.id}: the message was lost on purpose (--fault loss)")
        if self._random.random() < faults.duplicate:
            await self._inner.deliver(peer, message, timeout)
        answer = await self._inner.deliver(peer, message, timeout)
        if self._random.random() < faults.loss:
            raise DeliveryFailed("injected", f"peer {peer.id}: the answer was lost on purpose (--fault loss)")
        return answer

    def listener(self) -> Listener:
        """The real one's."""
        return self._inner.listener()

    async def stop(self, grace: float) -> None:
        """Stop the real one."""
        await self._inner.stop(grace)
