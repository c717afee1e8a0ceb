"""Inbox for the learner's messages: each is applied once, or permanently refused if it belongs to another task."""

import asyncio
from collections.abc import Awaitable, Callable

from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import Reply
from sottovoce.net.wire import Receipt, VerifiedMessage, decode, encode
from sottovoce.node.core import Action, Core
from sottovoce.node.departure import Departure
from sottovoce.node.links import Outgoing
from sottovoce.node.quota import Quota
from sottovoce.node.tasks import ANOTHER_TASK, Tasks


class Inbox:
    """Inbox for the messages to a device's learner.

    Args:
        core: the core, which applies the messages.
        tasks: this device's tasks.
        quota: limit on the messages from one peer.
        departure: this device's departure; once it is closed, new messages are refused.
        run_serially: runs a function that uses the core, one at a time.
    """

    def __init__(
        self,
        *,
        core: Core,
        tasks: Tasks,
        quota: Quota,
        departure: Departure,
        run_serially: Callable[[Callable[[], list[Action]]], Awaitable[None]],
    ) -> None:
        self._core = core
        self._tasks = tasks
        self._quota = quota
        self._departure = departure
        self._run_serially = run_serially

    async def apply_message(self, sender: str, envelope: VerifiedMessage) -> Receipt:
        """Apply a message from an authenticated sender, and return the receipt for it.

        Raises:
            MessageRefused: if the message cannot be accepted now, or does not fit the learner; nothing has changed.
        """
        receipt, clock = Receipt(), asyncio.get_running_loop().time
        key = (sender, envelope.incarnation, envelope.sequence)

        def apply() -> list[Action]:
            nonlocal receipt
            if not self._core.was_applied(*key):
                if self._departure.is_closed:
                    raise MessageRefused("leaving", "this device is leaving the fleet and no longer accepts messages")
                self._quota.charge_share(sender)
                if envelope.task != self._tasks.own_task.digest:
                    self._core.refuse(*key, ANOTHER_TASK)
            if reason := self._core.refusal_reason(*key):
                receipt = Receipt(refused=reason)
                return []
            message = decode(envelope.payload_type, envelope.payload)
            duplicate, actions = self._core.receive(*key, message, clock())
            replies = [encode(action.message) for action in actions if isinstance(action, Reply)]
            if duplicate and replies:
                self._quota.charge_share(sender)  # handling a repeated message is cheap, but computing the reply is not
            receipt = Receipt(duplicate, reply=replies[0] if replies else None)
            return actions

        await self._run_serially(apply)
        self._departure.note_progress()
        return receipt

    async def confirm(self, outgoing: Outgoing, reply: tuple[str, bytes] | None) -> None:
        """Process a recipient's confirmation of a message, and the reply that may come with it.

        Raises:
            MessageRefused: if the reply is malformed or does not fit the learner; nothing has changed.
        """
        key, clock = (outgoing.recipient, outgoing.sequence), asyncio.get_running_loop().time

        def apply() -> list[Action]:
            message = None
            if reply is not None and self._core.is_unconfirmed(*key) and self._core.takes_reply(reply[0]):
                message = decode(*reply)
            return self._core.confirm(*key, clock(), message)

        await self._run_serially(apply)
