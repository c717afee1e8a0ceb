"""Receive all messages from the network: check the sender, and pass each message to the right component."""

import time
from collections.abc import Callable
from dataclasses import replace

from sottovoce.errors import MessageRefused, SottovoceError
from sottovoce.fleet import Trust
from sottovoce.net.wire import LEDGER_HEAD, PEER_EXCHANGE, VerifiedMessage, encode_receipt, unseal
from sottovoce.net.wire.revocation import REVOCATIONS
from sottovoce.node.fleet_tasks import FLEET_TASK
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.gossip.peer_sampling import PeerSampler
from sottovoce.node.gossip.revocation_gossip import RevocationGossip
from sottovoce.node.inbox import Inbox
from sottovoce.node.links import Outgoing
from sottovoce.node.quota import Refusals
from sottovoce.node.roll_call import ROLL_CALL, RollCall
from sottovoce.node.tasks import TASK, Tasks
from sottovoce.ops import Counters

_CURRENT_TYPES = (TASK, FLEET_TASK, ROLL_CALL, PEER_EXCHANGE, LEDGER_HEAD)
"""Payload types that are sealed when they are sent. A share, however, may have been sealed under an earlier task."""
_NON_SHARE_TYPES = (*_CURRENT_TYPES, REVOCATIONS)
_MAX_SQLITE_INTEGER = 2**63 - 1  # the largest integer that SQLite can store


class Reception:
    """Receiver for messages from all transports.

    Args:
        trust: this device's identity, and the devices that it refuses.
        revocations: answers messages about revoked devices.
        head_gossip: answers messages about ledger heads.
        peer_sampling: answers exchanges of views; None if the peers are listed in the configuration.
        tasks: records the task of each sender, and answers messages about tasks.
        roll_call: reports this device's condition.
        counters: counters of messages and refusals.
        inbox: applies messages for the learner.
        on_message: called with the sender of each validly signed message.
        on_failure: called with the error if handling a message fails in a way that must stop this device.
    """

    def __init__(
        self,
        *,
        trust: Trust,
        revocations: RevocationGossip,
        head_gossip: LedgerHeadGossip,
        peer_sampling: PeerSampler | None,
        tasks: Tasks,
        roll_call: RollCall,
        counters: Counters,
        inbox: Inbox,
        on_message: Callable[[str], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._trust = trust
        self._revocation_gossip = revocations
        self._head_gossip = head_gossip
        self._peer_sampling = peer_sampling
        self._tasks = tasks
        self._roll_call = roll_call
        self._counters = counters
        self._inbox = inbox
        self._on_message = on_message
        self._on_failure = on_failure
        self._refusals = Refusals(counters)

    async def receive(self, sender: str, raw: bytes | None) -> bytes:
        """Handle a message and return the answer; see sottovoce.net.transports.Receive."""
        envelope = None
        try:
            envelope = self._open_envelope(sender, raw)
            if envelope.payload_type == REVOCATIONS:
                return await self._revocation_gossip.receive(sender, envelope.payload)
            if self._trust.is_revoked(sender):
                raise MessageRefused("revoked", f"device {sender} has been revoked by its fleet")
            self._on_message(sender)
            if envelope.payload_type in _CURRENT_TYPES:
                self._tasks.note_task(sender, envelope.task)
            if envelope.payload_type == TASK:
                return self._tasks.own_task.canonical
            if envelope.payload_type == FLEET_TASK:
                return await self._tasks.fleet_tasks.receive(sender, envelope.payload)
            if envelope.payload_type == ROLL_CALL:
                return self._roll_call.answer()
            if envelope.payload_type == PEER_EXCHANGE:
                return self._answer_exchange(sender, envelope.payload)
            if envelope.payload_type == LEDGER_HEAD:
                return await self._answer_ledger_head(sender, envelope.payload)
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
        if envelope.heads is not None and envelope.payload_type in _NON_SHARE_TYPES:
            raise MessageRefused("malformed", "only a share may include ledger heads, but this message is not a share")
        if max(envelope.incarnation, envelope.sequence) > _MAX_SQLITE_INTEGER:
            raise MessageRefused("range", "the message's incarnation or sequence number is too large")
        return envelope

    def _answer_exchange(self, sender: str, payload: bytes) -> bytes:
        """Answer a peer's request to exchange views."""
        if self._peer_sampling is None:
            raise MessageRefused("membership", "this device accepts messages only from the peers in its configuration")
        reply = self._peer_sampling.receive(sender, payload)
        self._counters.wire_bytes += len(reply)
        return reply

    async def _answer_ledger_head(self, sender: str, payload: bytes) -> bytes:
        """Answer a peer that sends its ledger head; if the head is not stored, the answer tells the peer why."""
        answer, refusal = await self._head_gossip.receive(sender, payload)
        if refusal is not None:
            self._refusals.note(sender, refusal)
        return answer
