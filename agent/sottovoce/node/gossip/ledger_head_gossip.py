"""Exchange of ledger heads: each device stores its peers' newest heads, and learns which of its heads those peers know.

A peer receives the ledger head that covers a release before it uses that release, because links send the head before or
together with the share.
"""

import asyncio
import contextlib
import os
import time
from collections import OrderedDict, deque

from sottovoce.errors import MessageRefused
from sottovoce.net.transports import Peer
from sottovoce.net.wire import LEDGER_HEAD, Heads, SignedHead, decode_heads, encode_heads
from sottovoce.node.gossip.ledger_head_store import NAME, LedgerHeadStore
from sottovoce.node.gossip.messenger import Messenger
from sottovoce.node.gossip.witnesses import (
    NOTIFIED_PER_CHARGE,
    WITNESSES,
    RollbackDetector,
    WitnessRegistry,
    abbreviate,
    check_known_head,
)
from sottovoce.node.host import Host
from sottovoce.privacy.vault import LedgerPosition, VaultInterface

_LIFE_BYTES = 16
_FIRST_PAUSE, _CHECK_SECONDS = 0.5, 60.0
NOTIFY_INTERVAL_SECONDS = 1.0
"""Minimum time between messages to witnesses, in seconds; charges in quick succession are reported together."""

RESEND_INTERVAL_SECONDS = 60.0
"""Time after which a head is sent to a peer again, in seconds; resending reveals a second device with the same keys."""

LONGEST_RESEND_INTERVAL_SECONDS = 3600.0
"""Longest such time: it doubles each time that an unchanged head is confirmed, so that a quiet device sends little."""

_PERIODS_PER_WRITE, _LONGEST_WRITE_INTERVAL_SECONDS = 2, 30.0
"""Learner's periods between two commits of heads, and the longest such interval. A device charges once a period, so a
crash makes a peer forget two charges at most; the two commits of each charge, this one and the state's are three."""

_WAIT = "ledger"
_MAX_REJECTED_HEADS, _MAX_EARLIER_HEADS = 64, 512
_MAX_SIGNED_HEADS = 16  # of this run: the head that a peer returns is seldom older, and is then verified like any other


class LedgerHeadGossip:
    """One device's side of the gossip about ledger heads, both its own and those of its peers.

    Args:
        host: the agent's surroundings; its identity signs this device's heads.
        vault: the vault that contains this device's ledger.
        head_store: store for the latest heads of all devices.
        detector: evaluates the heads that peers know.
        messenger: connection to the peers.
        has_contacts: whether this device has a configured peer, a contact or a discovery source.
        period: the learner's period, in seconds.

    Raises:
        LedgerError: if the store contains a newer head of this device, or a head from a diverged history.
        DataError: if the store cannot be used.
    """

    def __init__(
        self,
        *,
        host: Host,
        vault: VaultInterface,
        head_store: LedgerHeadStore,
        detector: RollbackDetector,
        messenger: Messenger,
        has_contacts: bool,
        period: float,
    ) -> None:
        self.detector = detector
        self._host = host
        self._identity = identity = host.trust.identity
        self._vault = vault
        self._head_store = head_store
        self._messenger = messenger
        self._has_contacts = has_contacts
        self._write_interval = min(_PERIODS_PER_WRITE * period, _LONGEST_WRITE_INTERVAL_SECONDS)
        self._life = os.urandom(_LIFE_BYTES)
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._sent_at: dict[str, float] = {}
        self._resend_intervals: dict[str, float] = {}
        self._rejected_heads: OrderedDict[str, SignedHead] = OrderedDict()
        self._earlier_heads: OrderedDict[str, SignedHead] = OrderedDict()
        self._signed_heads: deque[SignedHead] = deque(maxlen=_MAX_SIGNED_HEADS)
        self.head = self._sign_head(vault.tip())
        detector.has_prior_charges = self.head.charges > 0
        self.witness_registry = WitnessRegistry(host, vault, detector, self.send_head)
        self._is_permitted = False
        self._notified_at = float("-inf")
        known = head_store.get_head(identity.node_id)
        if known is not None:
            check_known_head(f"this device's {NAME}", self.head, known, vault.mark(known.charges, known.released))
        detector.earlier_lives = head_store.begin_life(self._life)
        head_store.store_own_head(self.head)

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
        return not self._stopping.is_set()

    async def _wait_for_first_permission(self) -> bool:
        since, pause = time.monotonic(), _FIRST_PAUSE
        while not self._stopping.is_set():
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
        return not self._stopping.is_set()

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
        """Make `run` return, and wake any task that is waiting for permission."""
        self._stopping.set()
        self._changed.set()

    async def run(self) -> None:
        """Write the heads of the last few cycles to the store's file together, until stopped.

        Raises:
            DataError: if they cannot be written.
        """
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._write_interval)
            await self._host.run_on_disk(self._head_store.write)

    def close(self) -> None:
        """Close the store; see LedgerHeadStore.close."""
        self._head_store.close()

    def advance(self, tip: LedgerPosition) -> None:
        """Sign a head for the ledger's new tip, if it has changed, and store it on this device with the next write."""
        if (tip.charges, tip.released) != (self.head.charges, self.head.released):
            self.head = self._sign_head(tip)
            self._head_store.store_own_head(self.head)

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
        """Return whether this peer lacks the current head, or received a head too long ago."""
        interval = self._resend_intervals.get(peer, RESEND_INTERVAL_SECONDS)
        is_stale = time.monotonic() - self._sent_at.get(peer, float("-inf")) >= interval
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
        known = self._head_store.recent_head(peer)
        if known is None:
            known = await self._host.run_on_disk(lambda: self._head_store.get_head(peer))
        return head, encode_heads(Heads(head, known))

    async def handle_answer(self, peer: str, head: SignedHead, raw: bytes) -> None:
        """Handle a peer's answer to the request that contained this head; see `send_head` for the errors."""
        answer = decode_heads(raw)
        await self._check_known_head(peer, answer.known_head)
        interval = self._resend_intervals.get(peer, RESEND_INTERVAL_SECONDS)
        is_repeated = self.detector.acknowledged_head(peer) == head
        self._resend_intervals[peer] = (
            min(2 * interval, LONGEST_RESEND_INTERVAL_SECONDS) if is_repeated else RESEND_INTERVAL_SECONDS
        )
        self.detector.note_answer(peer, head, answer.known_head)
        self.witness_registry.note_answer(peer)
        self._sent_at[peer] = time.monotonic()

    def forget(self, peer: str) -> None:
        """Delete the state of a peer's answers."""
        self.detector.forget(peer)
        self._sent_at.pop(peer, None)
        self._resend_intervals.pop(peer, None)

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
        recent = self._head_store.recent_head(sender)
        if head != recent:  # stored heads were verified
            head.verify(self._identity.fleet)
        if recent is not None and recent.life == head.life:
            outcome = self._head_store.store_head(head, ())  # does not access the file
        else:
            # The heads of the peers that this device sends to are never dropped in favour of others.
            protected_owners = {self._identity.node_id, *(peer.id for peer in self._host.linked_peers())}
            outcome = await self._host.run_on_disk(lambda: self._head_store.store_head(head, protected_owners))
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
            if known not in self._signed_heads:
                known.verify(self._identity.fleet)
            mark = own_head.mark if known == own_head else await self._mark(known)
        self.detector.record_known_head(peer, own_head, known, mark)
        self._changed.set()

    async def _mark(self, known: SignedHead) -> bytes | None:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._vault.mark, known.charges, known.released)

    def _sign_head(self, tip: LedgerPosition) -> SignedHead:
        head = SignedHead(self._identity.public_key, tip.charges, tip.released, tip.mark, self._life).sign(
            self._identity
        )
        self._signed_heads.append(head)
        return head

    def _waiting_reason(self) -> str:
        confirmed, required = self.detector.confirmation_count, self.detector.required_peers
        peers = len(self._host.linked_peers())
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
