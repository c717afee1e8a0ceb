"""Departure of a device, permanently or for a long time, after it has handed over its share of the fleet's sum.

Push-sum mass belongs to the fleet, not to a device. If a device left with its share, that mass would be missing from
the fleet's average. Therefore the device sends its whole share to one live peer, which confirms it like any other
share. Anything that is not confirmed in time remains on this device's disk and is sent after the next start, so the
mass is delayed but not lost.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sottovoce.errors import MessageRefused
from sottovoce.net.transports import DeliveryFailed
from sottovoce.node.core import Core
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.link import Link

_log = logging.getLogger(__name__)
LEAVE_SECONDS = 30.0
_ACCEPT_SECONDS = 3.0
_QUIET_SECONDS = 1.0
_PAUSE_SECONDS = 0.2


class Departure:
    """A device's departure from the fleet: hands over its state, and reports the outcome.

    Args:
        core: the agent's core.
        head_gossip: used to check whether a peer is alive.
        links: links to the peers, by node id.
        has_left: returns whether a peer is known to have left.
        hand_off: makes the core hand over its part to a peer, and sends the resulting messages.

    Attributes:
        has_begun: whether the departure has begun; from then on, no new cycle starts and the vault is not queried.
        is_closed: whether the device has stopped accepting messages; their senders then keep them.
    """

    def __init__(
        self,
        *,
        core: Core,
        head_gossip: LedgerHeadGossip,
        links: Mapping[str, Link],
        has_left: Callable[[str], bool],
        hand_off: Callable[[str], Awaitable[None]],
    ) -> None:
        self.has_begun = False
        self.is_closed = False
        self._core = core
        self._head_gossip = head_gossip
        self._links = links
        self._has_left = has_left
        self._hand_off = hand_off
        self._progress = asyncio.Event()
        self._outcome: asyncio.Future[dict[str, Any]] | None = None

    def note_progress(self) -> None:
        """Record that a message was received or confirmed."""
        self._progress.set()

    async def wait_for_outcome(self) -> dict[str, Any]:
        """Wait until the device has left, and return the answer to the `leave` command."""
        if self._outcome is None:
            self._outcome = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._outcome)

    async def hand_over(self, stopping: asyncio.Event, *, peers_informed: bool) -> None:
        """Hand over this device's state, including messages that arrive meanwhile; give up after 30 seconds.

        Args:
            stopping: event that is set when the device must stop immediately.
            peers_informed: whether other devices have been informed and will soon stop sending. If so, messages are
                accepted until one second passes without one, for at most three seconds; otherwise, none are accepted.
        """
        if not self._core.requires_hand_off:
            return
        loop = asyncio.get_running_loop()
        accept_until = loop.time() + (_ACCEPT_SECONDS if peers_informed else 0.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                while not stopping.is_set():
                    self._progress.clear()
                    self.is_closed = self.is_closed or loop.time() >= accept_until
                    if self._core.has_part_to_hand_off and (successor := await self._responsive_peer()) is not None:
                        await self._hand_off(successor)
                    has_progressed = await self._wait_for_progress()
                    if self._remainder() is None:
                        if self.is_closed:
                            return
                        self.is_closed = not has_progressed

    def report_outcome(self) -> None:
        """Log the outcome of the departure and pass it to the waiting command, after the transport has stopped."""
        if self._outcome is None or self._outcome.done():
            return
        remainder = self._remainder()
        if remainder is None:
            _log.info("left the other devices have received everything they need from this device")
        else:
            _log.warning(
                "leave-incomplete %s; the remaining messages are stored and will be sent after the next startup",
                remainder,
            )
        self._outcome.set_result({"stopping": True, "handed_over": remainder is None, "left": remainder or ""})

    def _remainder(self) -> str | None:
        """Return a description of what was not handed over, or None if everything was."""
        if not self._core.requires_hand_off:
            return None
        if self._core.has_part_to_hand_off:
            return "no peer took over this device's push-sum share"
        unconfirmed_recipients = [outgoing.recipient for outgoing in self._core.outbox]
        if unconfirmed_recipients:
            return f"{', '.join(unconfirmed_recipients)} did not confirm this device's messages"
        return None

    async def _responsive_peer(self) -> str | None:
        """Return a peer that has just answered and has confirmed every share sent to it; None if no peer qualifies."""
        unconfirmed_recipients = {outgoing.recipient for outgoing in self._core.outbox}
        for node, link in sorted(self._links.items(), key=lambda item: item[1].failures):
            if node not in unconfirmed_recipients and not self._has_left(node):
                with contextlib.suppress(DeliveryFailed, MessageRefused):
                    await self._head_gossip.send_head(link.peer)
                    return node
        return None

    async def _wait_for_progress(self) -> bool:
        """Wait up to one second, or 0.2 s while a part remains to be handed over; return whether there was progress."""
        pause = _PAUSE_SECONDS if self._core.has_part_to_hand_off else _QUIET_SECONDS
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self._progress.wait(), pause)
        return False
