"""Permission to release, granted only while the heads that peers know of this ledger are in the ledger's past.

A device restored from a copy has forgotten part of its spending, and a second one with the same keys spends the same
budget again: peers' heads reveal both. Peers can withhold heads, but they cannot forge them.

Once anything has been charged, a peer that does not know the ledger provides no evidence about it. From then on, the
keepers of its newest head count; the ledger itself names them, and they know it however large the fleet is.
"""

from dataclasses import dataclass, field

from sottovoce.errors import LedgerError
from sottovoce.wire import SignedHead

_REMEDY = (
    "Nothing more is released. Remedy: stop every other device that has these keys, and put this device's newest "
    "ledger back; where it is lost, this identity can never release again, and a new device has to join"
)
_MAX_LATE = 1  # tolerance for a message of an earlier life that was in transit when that life ended


@dataclass(slots=True)
class _Peer:
    """State of one peer since this start; `first` is its first answer."""

    first: SignedHead | None
    acknowledged_head: SignedHead | None = None
    late: int = 0


@dataclass(slots=True)
class RollbackDetector:
    """Judge of the heads that peers know.

    Attributes:
        needed: number of different peers that have to know no newer head before the first release.
        alone: whether the operator has decided that none is needed.
        charged: whether something was charged before this start, so that a peer that knows no head is no witness.
        keepers: node ids of the keepers of this ledger's newest head; if there are none, any peer that knows it counts.
    """

    needed: int
    alone: bool
    charged: bool = False
    keepers: frozenset[str] = frozenset()
    _peers: dict[str, _Peer] = field(default_factory=dict)
    _agreeing: set[str] = field(default_factory=set)
    _tried: set[str] = field(default_factory=set)

    @property
    def agreeing_count(self) -> int:
        """Return the number of peers that have reported, since this start, that they know nothing newer."""
        return len(self._agreeing)

    @property
    def may_release(self) -> bool:
        """Return whether this device may release: enough peers agree, and every keeper was asked or unreachable."""
        all_tried = not self.charged or self.keepers <= self._tried
        return self.alone or (all_tried and len(self._agreeing) >= self.needed)

    def note_no_answer(self, peer: str) -> None:
        """Note that a peer was asked and did not answer."""
        self._tried.add(peer)

    def acknowledged_head(self, peer: str) -> SignedHead | None:
        """Return the head that was last sent to this peer and answered."""
        return self._peers[peer].acknowledged_head if peer in self._peers else None

    def record_known_head(self, peer: str, own: SignedHead, known: SignedHead | None, mark: bytes | None) -> None:
        """Record the head of this device that a peer has sent.

        Args:
            peer: node id of the peer.
            own: this device's head now.
            known: this device's highest head that the peer knows, with a verified signature; None if it knows none.
            mark: this ledger's own head at `known`'s charges and releases; None when it never held those.

        Raises:
            LedgerError: if it is newer than this ledger, or belongs to a diverged history.
        """
        if known is not None:
            check_known_head(f"peer {peer}", own, known, mark)
        self._tried.add(peer)
        knows = known is not None and known.life != own.life  # a head that it got since this start is no evidence
        if not self.charged or (knows and (peer in self.keepers or not self.keepers)):
            self._agreeing.add(peer)

    def note_answer(self, peer: str, sent_head: SignedHead, known: SignedHead | None) -> None:
        """Note that a peer answered a message with head `sent_head`; its own knowledge was recorded before.

        Raises:
            LedgerError: if another process sends the peer heads of this device, alternately with this process.
        """
        state = self._peers.setdefault(peer, _Peer(known))
        before, has_changed = state.acknowledged_head, known != state.first
        if before and known and has_changed and known.life != before.life and known.charges >= before.charges:
            # Another process took this one's place.
            state.late += 1
            if state.late > _MAX_LATE:
                raise LedgerError(f"another copy of this device is running: {peer} hears from both in turn. {_REMEDY}")
        state.acknowledged_head = sent_head

    def forget(self, peer: str) -> None:
        """Forget a peer."""
        self._peers.pop(peer, None)


def check_known_head(where: str, own: SignedHead, known: SignedHead, mark: bytes | None) -> None:
    """Check that a head known elsewhere is this ledger's own past.

    Args:
        where: where the head is known, in words.
        own: this device's head now.
        known: the head known there, its signature verified.
        mark: this ledger's own head at `known`'s charges and releases; None when it never held those.

    Raises:
        LedgerError: if it is newer than this ledger, or belongs to a diverged history.
    """
    if known.charges > own.charges or known.released > own.released:
        raise LedgerError(
            f"this ledger is older than the one that this device has reported to others: {where} knows of charge "
            f"{known.charges} and release {known.released}, and this ledger ends at {own.charges} and {own.released}: "
            f"it is a restored copy, or another copy of this device is running. {_REMEDY}"
        )
    if known.mark != mark:
        raise LedgerError(
            f"another copy of this device has released something: charge {known.charges} and release "
            f"{known.released}, as {where} knows them, are not those of this ledger. {_REMEDY}"
        )
