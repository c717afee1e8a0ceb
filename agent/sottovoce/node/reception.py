"""Receive all messages from the network: check the sender, and pass each message to the right component."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from sottovoce.errors import MessageRefused, SottovoceError
from sottovoce.fleet import Trust
from sottovoce.net.wire import LEDGER_HEAD, PEER_EXCHANGE, VerifiedMessage, encode_receipt, unseal
from sottovoce.net.wire.ledger_head import MAX_SQLITE_INTEGER
from sottovoce.net.wire.revocation import REVOCATIONS
from sottovoce.node.collaborators import Gossip
from sottovoce.node.fleet_tasks import FLEET_TASK
from sottovoce.node.inbox import Inbox
from sottovoce.node.links import Outgoing
from sottovoce.node.quota import Refusals
from sottovoce.node.roll_call import ROLL_CALL
from sottovoce.node.tasks import TASK
from sottovoce.ops import Counters

Handler = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a message, given its sender and payload; raises MessageRefused."""


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

    async def _answer_ledger_head(self, sender: str, payload: bytes) -> bytes:
        """Answer a peer that sends its ledger head; if the head is not stored, the answer tells the peer why."""
        answer, refusal = await self._gossip.heads.receive(sender, payload)
        if refusal is not None:
            self._refusals.note(sender, refusal)
        return answer
