"""Witnesses of a device's ledger, and detection of a rolled-back ledger from the heads that peers know.

A head is a signed statement of how much a ledger has charged and released, with a hash of its history. A device may
release only if its ledger contains the latest heads that peers know. A device restored from a copy has lost the record
of part of its spending, and a second device with the same keys spends the same budget again. The heads that peers know
reveal both. Peers can withhold heads, but they cannot forge them.

A device's witnesses are a few peers that receive its heads, and are asked for its newest head at startup. The ledger
lists them before anything is charged. A restored copy therefore asks the same peers, whatever the size of the fleet.
Only peers that have accepted a head are listed, so even if a device stops immediately afterwards, the peers that it
will ask know its ledger. A witness that has left the fleet, or was unreachable for three days, is replaced.

Once anything has been charged, a peer that does not know the ledger provides no evidence about it. From then on, only
answers from the newest head's witnesses count.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from sottovoce.errors import LedgerError, MessageRefused
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.net.wire import SignedHead
from sottovoce.node.host import Host
from sottovoce.privacy.vault import VaultInterface, Witness

_REMEDY = (
    "Nothing more will be released. Stop every other device that has these keys, and restore this device's "
    "newest ledger. If that ledger is lost, this identity can never release anything again, and a new device "
    "must join"
)
_MAX_LATE_ANSWERS = 1  # tolerates one message from an earlier life of which the record was lost
WITNESSES = 8
"""Number of witnesses. If half of the fleet is unreachable, one device in 256 reaches none of its witnesses."""

NOTIFIED_PER_CHARGE = WITNESSES // 2
"""Number of witnesses that are notified after each charge, in rotation.

After a second charge, all witnesses have been notified. At startup, all of them are asked.
"""

REPLACE_AFTER_SECONDS = 3 * 86_400.0
"""Time after which an unreachable witness is replaced, in seconds since the first failed attempt."""


@dataclass(slots=True)
class _Peer:
    """State of one peer since this start; `first_head` is the head in its first answer."""

    first_head: SignedHead | None
    acknowledged_head: SignedHead | None = None
    late_answers: int = 0


@dataclass(slots=True)
class RollbackDetector:
    """Detects a rolled-back ledger from the heads that peers know; blocks releases until enough know no newer one.

    Attributes:
        required_peers: number of different peers that must report no newer head before the first release.
        peers_optional: whether the operator has decided that no peer is needed.
        has_prior_charges: whether anything was charged before this start. If so, a peer that knows no head confirms
            nothing.
        witnesses: node ids of the witnesses of this ledger's newest head. If there are none, any peer that knows a head
            from before this start counts.
        earlier_lives: lives of this device before this start. Their heads may arrive late, or be returned again by a
            dishonest peer, so they do not reveal another copy.
    """

    required_peers: int
    peers_optional: bool
    has_prior_charges: bool = False
    witnesses: frozenset[str] = frozenset()
    earlier_lives: frozenset[bytes] = frozenset()
    _peers: dict[str, _Peer] = field(default_factory=dict)
    _confirmed_by: set[str] = field(default_factory=set)
    _contacted: set[str] = field(default_factory=set)

    @property
    def confirmation_count(self) -> int:
        """Return the number of peers that have reported since startup that they know of no newer head."""
        return len(self._confirmed_by)

    @property
    def may_release(self) -> bool:
        """Return whether this device may release: enough peers agree, and every witness was asked or is unreachable."""
        all_contacted = not self.has_prior_charges or self.witnesses <= self._contacted
        return self.peers_optional or (all_contacted and len(self._confirmed_by) >= self.required_peers)

    def note_no_answer(self, peer: str) -> None:
        """Record that a peer was asked and did not answer."""
        self._contacted.add(peer)

    def acknowledged_head(self, peer: str) -> SignedHead | None:
        """Return the last head that was sent to this peer and answered, or None if there is none."""
        return self._peers[peer].acknowledged_head if peer in self._peers else None

    def record_known_head(self, peer: str, own_head: SignedHead, known: SignedHead | None, mark: bytes | None) -> None:
        """Check and record the head of this device that a peer has sent.

        Args:
            peer: node id of the peer.
            own_head: this device's present head.
            known: this device's highest head known to the peer, with a verified signature; None if it knows none.
            mark: this ledger's own mark at the charges and releases of `known`; None if it never had these.

        Raises:
            LedgerError: if `known` is newer than this ledger, or belongs to a diverged history.
        """
        if known is not None:
            check_known_head(f"peer {peer}", own_head, known, mark)
        self._contacted.add(peer)
        is_evidence = known is not None and known.life != own_head.life  # a head sent since this start is not evidence
        if not self.has_prior_charges or (is_evidence and (peer in self.witnesses or not self.witnesses)):
            self._confirmed_by.add(peer)

    def note_answer(self, peer: str, sent_head: SignedHead, known: SignedHead | None) -> None:
        """Record that a peer answered a message with head `sent_head`. Call `record_known_head` first.

        Raises:
            LedgerError: if another process and this one alternately send the peer heads of this device.
        """
        state = self._peers.setdefault(peer, _Peer(known))
        previous, has_changed = state.acknowledged_head, known != state.first_head
        if previous and known and has_changed and self._is_foreign(known, previous):
            # Another process has reported a head of this device in the meantime.
            state.late_answers += 1
            if state.late_answers > _MAX_LATE_ANSWERS:
                raise LedgerError(
                    f"another copy of this device is running: {peer} receives messages from both copies "
                    f"in turn. {_REMEDY}"
                )
        state.acknowledged_head = sent_head

    def _is_foreign(self, known: SignedHead, own: SignedHead) -> bool:
        """Return whether a head that is no older than one of this start is from a life that this device never had."""
        return known.charges >= own.charges and known.life != own.life and known.life not in self.earlier_lives

    def forget(self, peer: str) -> None:
        """Delete the state of a peer."""
        self._peers.pop(peer, None)


def check_known_head(source: str, own_head: SignedHead, known: SignedHead, mark: bytes | None) -> None:
    """Check that a head known elsewhere is part of this ledger's own past.

    Args:
        source: a description, for error messages, of where the head is known.
        own_head: this device's present head.
        known: the head known there, with a verified signature.
        mark: this ledger's own mark at the charges and releases of `known`; None if it never had these.

    Raises:
        LedgerError: if `known` is newer than this ledger, or belongs to a diverged history.
    """
    if known.charges > own_head.charges or known.released > own_head.released:
        raise LedgerError(
            f"this ledger is older than the one this device has already reported to others: {source} knows of "
            f"charge {known.charges} and release {known.released}, but this ledger ends at charge {own_head.charges} "
            f"and release {own_head.released}. Either this ledger is a restored copy, or another copy of this device "
            f"is running. {_REMEDY}"
        )
    if known.mark != mark:
        raise LedgerError(
            f"another copy of this device has released data: charge {known.charges} and release "
            f"{known.released}, known to {source}, differ from those in this ledger. {_REMEDY}"
        )


class WitnessRegistry:
    """Registry of a device's witnesses, which appoints them and sends them ledger heads.

    Args:
        host: the agent's surroundings.
        vault: the vault, which stores the list of witnesses in the ledger.
        detector: evaluates the witnesses' answers.
        send_head: sends a peer the current head and receives its known head; raises DeliveryFailed or MessageRefused.
    """

    def __init__(
        self,
        host: Host,
        vault: VaultInterface,
        detector: RollbackDetector,
        send_head: Callable[[Peer], Awaitable[None]],
    ) -> None:
        self.witnesses = vault.witnesses()
        self._host = host
        self._vault = vault
        self._detector = detector
        self._send_head = send_head
        self._next_index = 0
        self._failing_since: dict[str, float] = {}
        detector.witnesses = self.nodes

    @property
    def nodes(self) -> frozenset[str]:
        """The witnesses' node ids."""
        return frozenset(witness.node for witness in self.witnesses)

    async def notify_witnesses(self, is_due: Callable[[str], bool], limit: int) -> None:
        """Send the head to at most `limit` witnesses for which it is due, in turn, and record which do not answer.

        Raises:
            LedgerError: if a witness knows a newer head, or a head from a diverged history.
        """
        order = [*self.witnesses[self._next_index :], *self.witnesses[: self._next_index]]
        chosen = [witness for witness in order if is_due(witness.node)][:limit]
        if chosen:
            self._next_index = (self.witnesses.index(chosen[-1]) + 1) % len(self.witnesses)
        await asyncio.gather(*(self._try_send_head(witness) for witness in chosen))

    @property
    def acknowledged_count(self) -> int:
        """The number of witnesses that have acknowledged a head since this start."""
        return sum(self._detector.acknowledged_head(witness.node) is not None for witness in self.witnesses)

    async def appoint(self, is_due: Callable[[str], bool]) -> None:
        """Appoint new witnesses if there are too few, and store those that have acknowledged a head in the ledger.

        Raises:
            PrivacyError: if the ledger cannot be written.
            LedgerError: see `notify_witnesses`.
        """
        remaining = [witness for witness in self.witnesses if not self._is_gone(witness.node)]
        others = [
            peer
            for peer in self._host.linked_peers()
            if peer.id not in self.nodes and peer.id not in self._failing_since and not self._host.has_left(peer.id)
        ]
        candidates = random.sample(others, min(WITNESSES - len(remaining), len(others)))
        chosen = [Witness(peer.id, (peer.address, *peer.others)) for peer in candidates]
        await asyncio.gather(*(self._try_send_head(witness) for witness in chosen if is_due(witness.node)))
        appointed = [witness for witness in chosen if self._detector.acknowledged_head(witness.node) is not None]
        if not appointed:
            return
        witnesses = (*remaining, *appointed)
        await asyncio.get_running_loop().run_in_executor(None, self._vault.appoint, witnesses)
        self.witnesses, self._next_index = witnesses, len(remaining)
        self._detector.witnesses = self.nodes

    def note_answer(self, node: str) -> None:
        """Record that this node has answered."""
        self._failing_since.pop(node, None)

    def _is_gone(self, node: str) -> bool:
        """Return whether a node has left, or has been unreachable for more than REPLACE_AFTER_SECONDS."""
        since = self._failing_since.get(node, math.inf)
        return self._host.has_left(node) or time.monotonic() - since > REPLACE_AFTER_SECONDS

    async def _try_send_head(self, witness: Witness) -> None:
        try:
            await self._send_head(self._find_peer(witness))
        except (DeliveryFailed, MessageRefused):
            self._failing_since.setdefault(witness.node, time.monotonic())
            self._detector.note_no_answer(witness.node)

    def _find_peer(self, witness: Witness) -> Peer:
        """Return a witness as a peer, with its current address if known, otherwise its address when appointed."""
        known_peers = {peer.id: peer for peer in self._host.linked_peers()}
        return known_peers.get(witness.node) or self._host.make_peer(witness.node, witness.endpoints)


def abbreviate(nodes: Collection[str]) -> str:
    """Return the first three node ids as text, for messages to people."""
    shown_nodes = sorted(nodes)[:3]
    return ", ".join(shown_nodes) + (", …" if len(nodes) > len(shown_nodes) else "")
