"""The inbox of a device on a broker: its topics, and the senders whose topics it has left because they flood it.

The device usually listens to all senders through one filter. A broker delivers messages in the order in which they
arrive, so a sender that floods the device fills its queue at the broker, and the messages of all others wait or are
lost. Dropping the flood on arrival does not help: the device must no longer be subscribed to it. While a sender is shut
out, the device therefore listens to each device that it knows on that device's own topic instead.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from sottovoce.net.transports.mqtt.topics import Topics

_log = logging.getLogger(__name__)
_MAX_SENDERS = 256  # topics of single senders to which the device listens at a time
_MAX_SHUT_OUT = 1024
_RETRY_SECONDS = 1.0
_FIRST_SECONDS, _LONGEST_SECONDS = 60.0, 1920.0


class Subscriptions(Protocol):
    """The part of sottovoce.net.transports.mqtt.connection.Connection that an inbox uses."""

    async def subscribe(self, topic: str) -> None:
        """Subscribe to a topic; raise OSError if the broker does not accept that."""
        ...

    async def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic."""
        ...


class Intake:
    """The inbox's subscriptions.

    Args:
        topics: the device's topics.
        subscriptions: subscribes and unsubscribes.
        known: returns the node ids of the devices that this device knows, the most recent last.
    """

    def __init__(self, topics: Topics, subscriptions: Subscriptions, known: Callable[[], Iterable[str]]) -> None:
        self._topics = topics
        self._subscriptions = subscriptions
        self._known = known
        self._shut_out: dict[str, asyncio.TimerHandle] = {}
        self._seconds: dict[str, float] = {}
        self._listening: set[str] = {topics.inboxes}
        self._changed = asyncio.Event()

    @property
    def shut_out(self) -> tuple[str, ...]:
        """The node ids of the senders that are shut out, sorted."""
        return tuple(sorted(self._shut_out))

    def is_shut_out(self, sender: str) -> bool:
        """Return whether a sender's messages must be dropped unread."""
        return sender in self._shut_out

    def shut_out_for_a_while(self, sender: str) -> None:
        """Stop listening to a sender; each time for twice as long, up to half an hour."""
        if sender in self._shut_out or len(self._shut_out) >= _MAX_SHUT_OUT:
            return
        seconds = min(_LONGEST_SECONDS, self._seconds.pop(sender, _FIRST_SECONDS / 2) * 2)
        self._seconds[sender] = seconds
        if len(self._seconds) > _MAX_SHUT_OUT:
            self._seconds.pop(next(iter(self._seconds)))
        self._shut_out[sender] = asyncio.get_running_loop().call_later(seconds, self._readmit, sender)
        self._changed.set()
        _log.warning(
            "sender-shut-out sender=%s floods this device over the broker; its messages are not received for %g s",
            sender,
            seconds,
        )

    def follow(self) -> None:
        """Listen to a device that has become known."""
        if self._shut_out:
            self._changed.set()

    def reconnected(self) -> None:
        """Leave the flooded inbox again, because the broker's session may have kept it if the connection was lost."""
        if self._shut_out:
            self._listening.add(self._topics.inboxes)
            self._changed.set()

    async def run(self) -> None:
        """Keep the subscriptions in step with who is shut out."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            wanted = self._wanted()
            new, old = wanted - self._listening, self._listening - wanted
            # All at once, because behind a flood each reply takes as long as what the broker has queued before it. The
            # broker handles them in this order, so no message of an honest sender is lost between them.
            results = await asyncio.gather(
                *(self._subscriptions.subscribe(topic) for topic in new),
                *(self._subscriptions.unsubscribe(topic) for topic in old),
                return_exceptions=True,
            )
            refused = {topic for topic, result in zip(new, results, strict=False) if isinstance(result, Exception)}
            self._listening = wanted - refused
            if refused:  # most likely, the connection has just been lost
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._changed.set)

    async def close(self) -> None:
        """End all shut-outs, so that the broker's session keeps no topics of single senders."""
        for timer in self._shut_out.values():
            timer.cancel()
        self._shut_out.clear()
        for topic in self._listening - {self._topics.inboxes}:
            await self._subscriptions.unsubscribe(topic)

    def _readmit(self, sender: str) -> None:
        del self._shut_out[sender]
        self._changed.set()

    def _wanted(self) -> set[str]:
        if not self._shut_out:
            return {self._topics.inboxes}
        senders = [device for device in self._known() if device not in self._shut_out]
        return {self._topics.inbox_from(sender) for sender in senders[-_MAX_SENDERS:]}
