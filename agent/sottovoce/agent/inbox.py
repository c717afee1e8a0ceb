"""Inbox of messages for the learner: each is applied once, or refused permanently if it belongs to another task."""

import asyncio
from collections.abc import Awaitable, Callable

from sottovoce.agent.core import Action, Core
from sottovoce.agent.departure import Departure
from sottovoce.agent.links import Outgoing
from sottovoce.agent.quota import Quota
from sottovoce.agent.tasks import ANOTHER_TASK, Tasks
from sottovoce.errors import MessageRefused
from sottovoce.learners import Reply
from sottovoce.wire import Receipt, VerifiedMessage, decode, encode


class Inbox:
    """The inbox for a device's learner.

    Args:
        core: core that applies the messages.
        tasks: tasks of this device.
        quota: limit on the messages of one peer.
        departure: tracks this device's departure; once it is closed, messages are rejected.
        serially: function that runs an action of the core, one at a time.
    """

    def __init__(
        self,
        *,
        core: Core,
        tasks: Tasks,
        quota: Quota,
        departure: Departure,
        serially: Callable[[Callable[[], list[Action]]], Awaitable[None]],
    ) -> None:
        self._core = core
        self._tasks = tasks
        self._quota = quota
        self._departure = departure
        self._serially = serially

    async def apply_message(self, sender: str, opened: VerifiedMessage) -> Receipt:
        """Apply a message of an authenticated sender, durably; return the outcome.

        Raises:
            MessageRefused: if the message cannot be accepted now, or does not fit; nothing changed.
        """
        receipt, key, clock = Receipt(), (sender, opened.incarnation, opened.sequence), asyncio.get_running_loop().time

        def act() -> list[Action]:
            nonlocal receipt
            if not self._core.was_applied(*key):
                if self._departure.closed:
                    raise MessageRefused("leaving", "this device is leaving and accepts no more messages")
                self._quota.charge_share(sender)
                if opened.task != self._tasks.own.digest:
                    self._core.refuse(*key, ANOTHER_TASK)
            if reason := self._core.refusal_reason(*key):
                receipt = Receipt(refused=reason)
                return []
            message = decode(opened.payload_type, opened.payload)
            duplicate, actions = self._core.receive(*key, message, clock())
            replies = [encode(action.message) for action in actions if isinstance(action, Reply)]
            if duplicate and replies:
                self._quota.charge_share(sender)  # computing an answer takes long, repeating it does not
            receipt = Receipt(duplicate, reply=replies[0] if replies else None)
            return actions

        await self._serially(act)
        self._departure.note_progress()
        return receipt

    async def confirm(self, outgoing: Outgoing, reply: tuple[str, bytes] | None) -> None:
        """Handle the recipient's confirmation of a message, and its reply.

        Raises:
            MessageRefused: if it is not a reply; nothing changed.
        """
        key, clock = (outgoing.recipient, outgoing.sequence), asyncio.get_running_loop().time

        def act() -> list[Action]:
            message = None
            if reply is not None and self._core.awaits(*key) and self._core.takes_reply(reply[0]):
                message = decode(*reply)
            return self._core.confirm(*key, clock(), message)

        await self._serially(act)
