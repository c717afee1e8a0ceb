"""Exchange of ledger heads: each device stores its peers' newest heads, and learns which of its heads those peers know.

A peer receives the ledger head that covers a release before it uses that release, because links send the head before or
together with the share.
"""

import asyncio
import contextlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

from sottovoce.errors import MessageRefused
from sottovoce.fleet import Identity, peer_dns_name
from sottovoce.net.transports import Peer, Transport
from sottovoce.net.wire import LEDGER_HEAD, Heads, SignedHead, decode_heads, encode_heads
from sottovoce.node.gossip.ledger_head_store import NAME, LedgerHeadStore
from sottovoce.node.gossip.rollback_detector import RollbackDetector, check_known_head
from sottovoce.node.gossip.witness_registry import NOTIFIED_PER_CHARGE, WITNESSES, WitnessRegistry, abbreviate
from sottovoce.node.wait_status import Waits
from sottovoce.ops import Counters
from sottovoce.privacy.vault import LedgerPosition, VaultInterface

T = TypeVar("T")
_LIFE_BYTES = 16
_FIRST_PAUSE, _CHECK_SECONDS = 0.5, 60.0
NOTIFY_INTERVAL_SECONDS = 1.0
"""Minimum time between messages to witnesses, in seconds; charges in quick succession are reported together."""

RESEND_INTERVAL_SECONDS = 60.0
"""Time after which a head is sent to a peer again, in seconds; resending reveals a second device with the same keys."""

_WAIT = "ledger"
_MAX_REJECTED_HEADS, _MAX_EARLIER_HEADS = 64, 512


@dataclass(frozen=True, slots=True)
class Messenger:
    """Everything that a gossip protocol needs to send messages to other devices.

    Attributes:
        seal: returns the envelope for (recipient, payload type, payload).
        transport: transport for the envelopes.
        timeout: timeout for one request, in seconds.
        counters: counters for bytes sent and received.
        waits: record of the waits in progress.
    """

    seal: Callable[[str, str, bytes], bytes]
    transport: Transport
    timeout: float
    counters: Counters
    waits: Waits


class LedgerHeadGossip:
    """One device's side of the gossip about ledger heads, both its own and those of its peers.

    Args:
        identity: identity that signs this device's heads.
        vault: the vault that contains this device's ledger.
        head_store: store for the latest heads of all devices.
        detector: evaluates the heads that peers know.
        messenger: connection to the peers.
        has_contacts: whether this device has a configured peer, a contact or a discovery source.

    Raises:
        LedgerError: if the store contains a newer head of this device, or a head from a diverged history.
        DataError: if the store cannot be used.
    """

    def __init__(
        self,
        *,
        identity: Identity,
        vault: VaultInterface,
        head_store: LedgerHeadStore,
        detector: RollbackDetector,
        messenger: Messenger,
        has_contacts: bool,
    ) -> None:
        self.detector = detector
        self._identity = identity
        self._vault = vault
        self._head_store = head_store
        self._messenger = messenger
        self._has_contacts = has_contacts
        self._life = os.urandom(_LIFE_BYTES)
        self._changed = asyncio.Event()
        self._stopping = False
        self._sent_at: dict[str, float] = {}
        self._rejected_heads: OrderedDict[str, SignedHead] = OrderedDict()
        self._earlier_heads: OrderedDict[str, SignedHead] = OrderedDict()
        self._peers: Callable[[], list[str]] = list
        self._disk: Executor | None = None
        self.head = self._sign_head(vault.tip())
        detector.has_prior_charges = self.head.charges > 0
        self.witness_registry = WitnessRegistry(
            vault, detector, self.send_head, lambda node: peer_dns_name(node, identity.fleet)
        )
        self._is_permitted = False
        self._notified_at = float("-inf")
        known = head_store.get_head(identity.node_id)
        if known is not None:
            check_known_head(f"this device's {NAME}", self.head, known, vault.mark(known.charges, known.released))
        head_store.store_own_head(self.head)

    def attach(self, disk: Executor, peers: Callable[[], list[Peer]], has_left: Callable[[str], bool]) -> None:
        """Set the executor and the callbacks.

        Args:
            disk: executor for access to the store.
            peers: returns the peers that this device sends to; their heads are never dropped in favour of other heads.
            has_left: returns whether a node has left or is excluded from the fleet.
        """
        self._disk, self._peers = disk, lambda: [peer.id for peer in peers()]
        self.witness_registry.attach(peers, has_left)

    async def wait_for_permission(self) -> bool:
        """Wait until this device may release; return False if the agent stops first.

        The wait ends when enough peers have confirmed that they know of no newer head. If nothing had been charged
        before startup, the same number of witnesses must also have acknowledged a head. Once permission has been
        granted, later calls do not wait for any peers.

        Raises:
            LedgerError: if a witness knows a newer head, or a head from a diverged history.
        """
        if not self._is_permitted and not await self._wait_for_first_permission():
            return False
        self._is_permitted = True
        await self.witness_registry.appoint(self.is_due)
        return not self._stopping

    async def _wait_for_first_permission(self) -> bool:
        since, pause = time.monotonic(), _FIRST_PAUSE
        while not self._stopping:
            self._changed.clear()
            if self.detector.may_release:
                await self.witness_registry.appoint(self.is_due)
                if self._is_head_stored:
                    break
            self._messenger.waits.begin(_WAIT, self._waiting_reason(), pause, since, repeats=True)
            await self.witness_registry.notify_witnesses(self.is_due, WITNESSES)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause)
            pause = min(2 * pause, _CHECK_SECONDS)
        self._messenger.waits.end(_WAIT)
        return not self._stopping

    @property
    def _is_head_stored(self) -> bool:
        """Whether, after its next startup, the device will find a peer that knows this ledger."""
        return (
            self.detector.peers_optional
            or self.detector.has_prior_charges
            or self.witness_registry.acknowledged_count >= self.detector.required_peers
        )

    def _is_behind(self, peer: str) -> bool:
        """Return whether a peer has not acknowledged the current head."""
        return self.detector.acknowledged_head(peer) != self.head

    def stop(self) -> None:
        """Stop, and wake any task that is waiting for permission."""
        self._stopping = True
        self._changed.set()

    def close(self) -> None:
        """Close the store."""
        self._head_store.close()

    async def advance(self, tip: LedgerPosition) -> None:
        """Sign a head for the ledger's new tip, if it has changed, and store it on this device."""
        if (tip.charges, tip.released) != (self.head.charges, self.head.released):
            head = self._sign_head(tip)
            await self._run_on_disk(lambda: self._head_store.store_own_head(head))
            self.head = head

    async def notify_witnesses(self) -> None:
        """Send the newest head to half of the witnesses, in turn, at most once a second.

        Raises:
            LedgerError: see `wait_for_permission`.
        """
        if time.monotonic() - self._notified_at < NOTIFY_INTERVAL_SECONDS:
            return
        self._notified_at = time.monotonic()
        await self.witness_registry.notify_witnesses(self._is_behind, NOTIFIED_PER_CHARGE)

    def is_due(self, peer: str) -> bool:
        """Return whether this peer lacks the current head, or last received a head at least a minute ago."""
        is_stale = time.monotonic() - self._sent_at.get(peer, float("-inf")) >= RESEND_INTERVAL_SECONDS
        return is_stale or self.detector.acknowledged_head(peer) != self.head

    async def send_head(self, peer: Peer) -> None:
        """Send a peer the current head, and process the head that the peer knows.

        Raises:
            DeliveryFailed: if the delivery is not confirmed.
            MessageRefused: if the answer is malformed, or its head does not belong to this device.
            LedgerError: if the head that the peer knows is newer than this ledger, or from a diverged history.
        """
        head, request = await self.make_request(peer.id)
        messenger = self._messenger
        raw = messenger.seal(peer.id, LEDGER_HEAD, request)
        messenger.counters.wire_bytes += len(raw)
        await self.handle_answer(peer.id, head, await messenger.transport.deliver(peer, raw, messenger.timeout))

    async def make_request(self, peer: str) -> tuple[SignedHead, bytes]:
        """Return the current head, and an encoded request with this head that asks a peer for the head it knows."""
        head = self.head
        known = await self._run_on_disk(lambda: self._head_store.get_head(peer))
        return head, encode_heads(Heads(head, known))

    async def handle_answer(self, peer: str, head: SignedHead, raw: bytes) -> None:
        """Handle a peer's answer to the request that contained this head; see `send_head` for the errors."""
        answer = decode_heads(raw)
        await self._check_known_head(peer, answer.known_head)
        self.detector.note_answer(peer, head, answer.known_head)
        self.witness_registry.note_answer(peer)
        self._sent_at[peer] = time.monotonic()

    def forget(self, peer: str) -> None:
        """Delete the state of a peer's answers."""
        self.detector.forget(peer)
        self._sent_at.pop(peer, None)

    async def receive(self, sender: str, payload: bytes) -> tuple[bytes, MessageRefused | None]:
        """Process a peer's head, and this device's head as known to that peer.

        Returns:
            the answer, and the reason if the peer's head reveals a diverged history. The answer contains the sender's
            head that this device already knew. After such a refusal, the answer to the sender's next stored head
            contains the refused head instead.

        Raises:
            MessageRefused: if the message is malformed, or contains a head that was not signed by its device.
            LedgerError: if the head that the peer knows is newer than this ledger, or from a diverged history.
        """
        heads = decode_heads(payload)
        if heads.head is None or heads.head.owner != sender:
            raise MessageRefused("head", f"{sender} sent a ledger head that is not its own")
        head = heads.head
        head.verify(self._identity.fleet)
        protected_owners = {self._identity.node_id, *self._peers()}
        outcome = await self._run_on_disk(lambda: self._head_store.store_head(head, protected_owners))
        await self._check_known_head(sender, heads.known_head)
        known, refusal = outcome.known, None
        if outcome.is_consistent:
            known = self._rejected_heads.pop(sender, self._head_before_this_life(sender, head, outcome.known))
        elif outcome.known is not None and _proves_divergence(head, outcome.known):
            self._rejected_heads[sender] = head
            if len(self._rejected_heads) > _MAX_REJECTED_HEADS:
                self._rejected_heads.popitem(last=False)
            refusal = MessageRefused(
                "ledger",
                f"{sender} sent a ledger head with {head.charges} charges and {head.released} releases, which "
                f"does not extend the known head with {outcome.known.charges} charges and {outcome.known.released} "
                "releases: either the sender was restored from a copy, or two devices have the same keys",
            )
        answer = encode_heads(Heads(None, known))
        self._messenger.counters.wire_bytes += len(answer)
        return answer, refusal

    def _head_before_this_life(self, sender: str, head: SignedHead, known: SignedHead | None) -> SignedHead | None:
        """Return the sender's head from before its last restart, until the sender reports a newer head."""
        if known == head:
            return self._earlier_heads.get(sender, known)
        self._earlier_heads.pop(sender, None)
        if known is not None and known.life != head.life:
            self._earlier_heads[sender] = known
            if len(self._earlier_heads) > _MAX_EARLIER_HEADS:
                self._earlier_heads.popitem(last=False)
        return known

    async def _check_known_head(self, peer: str, known: SignedHead | None) -> None:
        """Check the head that a peer knows of this device, and pass it to the detector."""
        own_head, mark = self.head, None
        if known is not None:
            if known.owner_key != self._identity.public_key:
                raise MessageRefused("head", f"{peer} returned another device's ledger head")
            known.verify(self._identity.fleet)
            mark = own_head.mark if known == own_head else await self._mark(known)
        self.detector.record_known_head(peer, own_head, known, mark)
        self._changed.set()

    async def _mark(self, known: SignedHead) -> bytes | None:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._vault.mark, known.charges, known.released)

    async def _run_on_disk(self, operation: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, operation)

    def _sign_head(self, tip: LedgerPosition) -> SignedHead:
        return SignedHead(self._identity.public_key, tip.charges, tip.released, tip.mark, self._life).sign(
            self._identity
        )

    def _waiting_reason(self) -> str:
        confirmed, required, peers = self.detector.confirmation_count, self.detector.required_peers, len(self._peers())
        witnesses, acknowledged = self.witness_registry.nodes, self.witness_registry.acknowledged_count
        if self.detector.has_prior_charges and witnesses:
            return (
                f"{max(1, required - confirmed)} of {len(witnesses)} witnesses of this ledger to confirm "
                f"that no newer head exists; nothing is released until then ({abbreviate(witnesses)} "
                "are asked repeatedly; if they are permanently gone and this device was not restored from a "
                "copy, set ledger.alone = true)"
            )
        has_no_peers = not self._has_contacts and not peers
        hint = "; if there are no other devices, set ledger.alone = true" if has_no_peers else ""
        if self.detector.may_release:
            return (
                f"{required - acknowledged} of {required} peers to store this ledger's head; nothing "
                f"is released until then ({peers} peers are asked repeatedly{hint})"
            )
        return (
            f"{required - confirmed} of {required} peers to confirm that they know of no newer ledger of this "
            f"device; nothing is released until then ({peers} peers are asked repeatedly{hint})"
        )


def _proves_divergence(head: SignedHead, known: SignedHead) -> bool:
    """Return whether a head that does not continue the known one proves a diverged history, not just late delivery."""
    return head.life != known.life or (head.charges, head.released) == (known.charges, known.released)
