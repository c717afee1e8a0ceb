"""A wrapper for a real transport that loses, duplicates, delays, holds back and cuts off messages."""

import asyncio
import contextlib
import random
from dataclasses import dataclass

from sottovoce.net.transports import DeliveryFailed, Listener, Peer, Receive, Transport

from sottovoce_lab.simulator import Faults


@dataclass(slots=True)
class Reachability:
    """Which of an agent's peers are currently unreachable.

    Attributes:
        unreachable_peers: the node ids of the peers on the other side of a partition.
    """

    unreachable_peers: frozenset[str] = frozenset()


class FaultyTransport:
    """A transport that injects faults. Implements sottovoce.net.transports.Transport.

    Args:
        inner: the transport that delivers the messages that are not lost.
        faults: the faults to inject, with their rates.
        seed: seed for the random choice of faults.
        reach: the peers on the other side of a partition, which may change at any time.
    """

    def __init__(self, inner: Transport, faults: Faults, seed: int, reach: Reachability) -> None:
        self._inner = inner
        self._faults = faults
        self._random = random.Random(seed)
        self._reach = reach
        self._held_back: set[asyncio.Task[None]] = set()

    @property
    def largest(self) -> int:
        """The wrapped transport's largest message; see Transport.largest."""
        return self._inner.largest

    def reaches(self, address: str) -> bool:
        """Return whether the wrapped transport can reach an address."""
        return self._inner.reaches(address)

    async def start(self, receive: Receive) -> None:
        """Start the wrapped transport; incoming messages are not affected by faults."""
        await self._inner.start(receive)

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Deliver a message unless a fault prevents it; either the message or only its answer may be lost.

        A message that is held back counts as failed for the sender, which then sends to other peers or tries again. It
        is delivered later, within `timeout` seconds.
        """
        faults = self._faults
        await asyncio.sleep(max(0.0, faults.delay + self._random.uniform(-1, 1) * faults.delay_spread))
        if self._random.random() < faults.loss:
            raise _injected_fault(peer, "the message was lost", "loss")
        self._check_reachable(peer, "the message")
        if faults.reorder and self._random.random() < faults.reorder:
            self._hold(peer, message, timeout)
            raise _injected_fault(peer, "the message was held back", "reorder")
        if self._random.random() < faults.duplicate:
            await self._inner.deliver(peer, message, timeout)
        answer = await self._inner.deliver(peer, message, timeout)
        if self._random.random() < faults.loss:
            raise _injected_fault(peer, "the answer was lost", "loss")
        self._check_reachable(peer, "the answer")
        return answer

    def listener(self) -> Listener:
        """Return the wrapped transport's listener; see Transport.listener."""
        return self._inner.listener()

    async def stop(self, grace: float) -> None:
        """Stop the wrapped transport. Messages that are still held back are lost."""
        for task in self._held_back:
            task.cancel()
        await asyncio.gather(*self._held_back, return_exceptions=True)
        await self._inner.stop(grace)

    def _check_reachable(self, peer: Peer, subject: str) -> None:
        if peer.id in self._reach.unreachable_peers:
            raise _injected_fault(peer, f"{subject} was cut off", "partition")

    def _hold(self, peer: Peer, message: bytes, timeout: float) -> None:
        seconds = self._random.uniform(0, timeout)

        async def deliver_later() -> None:
            await asyncio.sleep(seconds)
            if peer.id not in self._reach.unreachable_peers:
                with contextlib.suppress(DeliveryFailed):  # the sender was already notified of a failure
                    await self._inner.deliver(peer, message, timeout)

        task = asyncio.create_task(deliver_later())
        self._held_back.add(task)
        task.add_done_callback(self._held_back.discard)


def _injected_fault(peer: Peer, event: str, fault: str) -> DeliveryFailed:
    return DeliveryFailed("injected", f"peer {peer.id}: {event} on purpose (--fault {fault})")
