"""Departure of a device, permanently or for long: it hands its part to the fleet before it stops.

Push-sum's mass belongs to the fleet, not to the device: if a device left with its share, the fleet's average would lack
it. So the whole share goes to one live peer, which confirms it like any other share. Whatever is not confirmed in time
stays on this device's disk, where the next start finds and sends it: the mass is then late, but not lost.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sottovoce.agent.core import Core
from sottovoce.agent.ledger_head_gossip import LedgerHeadGossip
from sottovoce.agent.link import Link
from sottovoce.errors import MessageRefused
from sottovoce.transport import DeliveryFailed

_log = logging.getLogger(__name__)
LEAVE_SECONDS = 30.0
_TAKING_SECONDS = 3.0
_QUIET_SECONDS = 1.0
_PAUSE_SECONDS = 0.2


class Departure:
    """Departure of one device.

    Args:
        core: core of the agent.
        head_gossip: asks whether a peer is alive.
        links: links to the peers, by node id.
        gone: function that returns whether a peer is known to have left.
        hand_off: lets the core hand over to a peer, and its links carry it.

    Attributes:
        begun: whether the departure has begun: no cycle begins any more, and the vault is not asked.
        closed: whether the device accepts no more messages, which then stay with their senders.
    """

    def __init__(
        self,
        *,
        core: Core,
        head_gossip: LedgerHeadGossip,
        links: Mapping[str, Link],
        gone: Callable[[str], bool],
        hand_off: Callable[[str], Awaitable[None]],
    ) -> None:
        self.begun = False
        self.closed = False
        self._core = core
        self._head_gossip = head_gossip
        self._links = links
        self._gone = gone
        self._hand_off = hand_off
        self._progress = asyncio.Event()
        self._outcome: asyncio.Future[dict[str, Any]] | None = None

    def note_progress(self) -> None:
        """Note that a message was received or confirmed."""
        self._progress.set()

    async def wait_for_outcome(self) -> dict[str, Any]:
        """Return the answer to the command to leave, once the device has left."""
        if self._outcome is None:
            self._outcome = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._outcome)

    async def hand_over(self, stopping: asyncio.Event, *, informed: bool) -> None:
        """Hand everything over, including messages that arrive meanwhile; give up after half a minute.

        Args:
            stopping: set when the device must stop at once.
            informed: whether other devices have been informed, so that they will soon stop sending. If so, messages are
                accepted until none has arrived for a second, for three seconds at most; otherwise, none is accepted.
        """
        if not self._core.requires_hand_off:
            return
        loop = asyncio.get_running_loop()
        accept_until = loop.time() + (_TAKING_SECONDS if informed else 0.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                while not stopping.is_set():
                    self._progress.clear()
                    self.closed = self.closed or loop.time() >= accept_until
                    if self._core.has_part_to_hand_off and (heir := await self._responsive_peer()) is not None:
                        await self._hand_off(heir)
                    progresses = await self._wait_for_progress()
                    if self._remainder() is None:
                        if self.closed:
                            return
                        self.closed = not progresses

    def report_outcome(self) -> None:
        """Report the outcome of the departure, once the transport has stopped."""
        if self._outcome is None or self._outcome.done():
            return
        remainder = self._remainder()
        if remainder is None:
            _log.info("left the others have everything that they need from this device")
        else:
            _log.warning("leave-incomplete %s: it is kept, and sent by the next start", remainder)
        self._outcome.set_result({"stopping": True, "handed_over": remainder is None, "left": remainder or ""})

    def _remainder(self) -> str | None:
        """Return a description of the part that was not handed over; None if everything was."""
        unconfirmed = [outgoing.recipient for outgoing in self._core.outbox] if self._core.requires_hand_off else []
        if self._core.has_part_to_hand_off:
            return "no peer took over this device's push-sum share"
        if unconfirmed:
            return f"{', '.join(unconfirmed)} did not confirm what this device sent"
        return None

    async def _responsive_peer(self) -> str | None:
        """Return a peer that has just answered and has no share waiting."""
        waiting = {outgoing.recipient for outgoing in self._core.outbox}
        for node, link in sorted(self._links.items(), key=lambda item: item[1].failures):
            if node not in waiting and not self._gone(node):
                with contextlib.suppress(DeliveryFailed, MessageRefused):
                    await self._head_gossip.tell(link.peer)
                    return node
        return None

    async def _wait_for_progress(self) -> bool:
        """Return whether a message is received or confirmed within a second, or within less time before a hand-over."""
        pause = _PAUSE_SECONDS if self._core.has_part_to_hand_off else _QUIET_SECONDS
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self._progress.wait(), pause)
        return False
