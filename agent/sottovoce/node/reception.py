"""Receive all messages from the network: check the sender, and pass each message to the right component.

The inbox applies each of the learner's messages once, or permanently refuses it if it belongs to another task.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from sottovoce.errors import MessageRefused, SottovoceError
from sottovoce.fleet import Trust
from sottovoce.learning.learners import Reply
from sottovoce.net.quota import Quota, Refusals
from sottovoce.net.wire import (
    LEDGER_HEAD,
    PEER_EXCHANGE,
    Receipt,
    VerifiedMessage,
    decode,
    encode,
    encode_receipt,
    unseal,
)
from sottovoce.net.wire.ledger_head import MAX_SQLITE_INTEGER
from sottovoce.net.wire.revocation import REVOCATIONS
from sottovoce.node.core import Action, Core
from sottovoce.node.departure import Departure
from sottovoce.node.gossip.fleet_tasks import FLEET_TASK
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.gossip.peer_sampling import PeerSampler
from sottovoce.node.gossip.result_gossip import RESULTS, ResultGossip
from sottovoce.node.gossip.revocation_gossip import RevocationGossip
from sottovoce.node.links import Outgoing
from sottovoce.node.tasks import ANOTHER_TASK, ROLL_CALL, TASK, RollCall, Tasks
from sottovoce.ops import Counters

Handler = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a message, given its sender and payload; raises MessageRefused."""


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


@dataclass(frozen=True, slots=True)
class Gossip:
    """The exchanges by which devices keep track of one another.

    Attributes:
        heads: ledger heads and their witnesses.
        revocations: revoked devices and changes of the fleet's keys.
        tasks: the device's task, and the tasks of its peers.
        roll_call: the condition of every device, on request.
        sampling: discovery and sampling of peers; None if the peers are configured.
        results: signatures on opened sums; None if the learner's sums are no results.
    """

    heads: LedgerHeadGossip
    revocations: RevocationGossip
    tasks: Tasks
    roll_call: RollCall
    sampling: PeerSampler | None
    results: ResultGossip | None


class Reception:
    """Receiver for messages from all transports.

    A message whose payload type has a handler is answered by that handler. Every other message is
    for the learner, and the inbox applies it.

    Args:
        trust: this device's identity, and the devices that it refuses.
        gossip: the exchanges whose messages have handlers.
        counters: counters of messages and refusals.
        inbox: applies messages for the learner.
        on_message: called with the sender of each validly signed message.
        on_failure: called with the error if handling a message fails in a way that must stop this device.
    """

    def __init__(
        self,
        *,
        trust: Trust,
        gossip: Gossip,
        counters: Counters,
        inbox: Inbox,
        on_message: Callable[[str], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._trust = trust
        self._gossip = gossip
        self._counters = counters
        self._inbox = inbox
        self._on_message = on_message
        self._on_failure = on_failure
        self._refusals = Refusals(counters)
        # These messages are sealed when they are sent. A share, however, may have been sealed under an earlier task.
        self._handlers: dict[str, Handler] = {
            TASK: self._send_task,
            FLEET_TASK: gossip.tasks.fleet_tasks.receive,
            ROLL_CALL: self._report_condition,
            PEER_EXCHANGE: self._answer_exchange,
            LEDGER_HEAD: self._answer_ledger_head,
            RESULTS: self._answer_results,
        }

    async def receive(self, sender: str, raw: bytes | None) -> bytes:
        """Handle a message and return the answer; see sottovoce.net.transports.Receive."""
        envelope = None
        try:
            envelope = self._open_envelope(sender, raw)
            if envelope.payload_type == REVOCATIONS:  # answered even for a revoked device
                return await self._gossip.revocations.receive(sender, envelope.payload)
            if self._trust.is_revoked(sender):
                raise MessageRefused("revoked", f"device {sender} has been revoked by its fleet")
            self._on_message(sender)
            if (handler := self._handlers.get(envelope.payload_type)) is not None:
                self._gossip.tasks.note_task(sender, envelope.task)
                return await handler(sender, envelope.payload)
            heads = None if envelope.heads is None else await self._answer_ledger_head(sender, envelope.heads)
            receipt = replace(await self._inbox.apply_message(sender, envelope), heads=heads)
        except MessageRefused as refusal:
            self._refusals.note(sender, refusal)
            raise
        except SottovoceError as failure:
            self._on_failure(failure)
            raise
        except MemoryError as failure:
            if envelope is not None:  # the message may be partly processed, so only the disk is reliable
                self._on_failure(failure)
            raise
        if receipt.refused:
            explanation = (
                "the sender's task differs from this device's: the message is not applied, and the sender keeps the "
                "mass that it sent"
            )
            self._refusals.note(sender, MessageRefused("task", explanation))
        else:
            self._counters.received += not receipt.duplicate
            self._counters.received_at = time.monotonic()
            self._counters.duplicates += receipt.duplicate
            self._counters.payload_bytes += 0 if receipt.reply is None else len(receipt.reply[1])
        answer = encode_receipt(receipt)
        self._counters.wire_bytes += len(answer)
        return answer

    async def handle_confirmation(self, outgoing: Outgoing, reply: tuple[str, bytes] | None) -> None:
        """Handle a peer's confirmation of a message. The confirmation remains valid even if the reply is refused."""
        try:
            await self._inbox.confirm(outgoing, reply)
        except MessageRefused as refusal:
            self._refusals.note(outgoing.recipient, refusal)
            await self._inbox.confirm(outgoing, None)

    def _open_envelope(self, sender: str, raw: bytes | None) -> VerifiedMessage:
        """Return the content of an envelope after checking that it is for this device and signed by its sender."""
        if raw is None:
            raise MessageRefused("incomplete", "the message exceeded the size limit, or the sender aborted it")
        identity = self._trust.identity
        envelope = unseal(raw, fleet=identity.fleet, recipient=identity.node_id)
        if envelope.sender != sender:
            raise MessageRefused("sender", f"{sender} sent a message signed by {envelope.sender}")
        if envelope.heads is not None and envelope.payload_type in (*self._handlers, REVOCATIONS):
            raise MessageRefused("malformed", "only a share may include ledger heads, but this message is not a share")
        if max(envelope.incarnation, envelope.sequence) > MAX_SQLITE_INTEGER:
            raise MessageRefused("range", "the message's incarnation or sequence number is too large")
        return envelope

    async def _send_task(self, sender: str, payload: bytes) -> bytes:
        return self._gossip.tasks.own_task.canonical

    async def _report_condition(self, sender: str, payload: bytes) -> bytes:
        return self._gossip.roll_call.answer()

    async def _answer_exchange(self, sender: str, payload: bytes) -> bytes:
        """Answer a peer's request to exchange views."""
        if self._gossip.sampling is None:
            raise MessageRefused("membership", "this device accepts messages only from the peers in its configuration")
        reply = self._gossip.sampling.receive(sender, payload)
        self._counters.wire_bytes += len(reply)
        return reply

    async def _answer_results(self, sender: str, payload: bytes) -> bytes:
        """Answer a peer that exchanges signatures on opened sums."""
        if self._gossip.results is None:
            raise MessageRefused("task", "this device's task has no sums that are results")
        return await self._gossip.results.receive(sender, payload)

    async def _answer_ledger_head(self, sender: str, payload: bytes) -> bytes:
        """Answer a peer that sends its ledger head; if the head is not stored, the answer tells the peer why."""
        answer, refusal = await self._gossip.heads.receive(sender, payload)
        if refusal is not None:
            self._refusals.note(sender, refusal)
        return answer
