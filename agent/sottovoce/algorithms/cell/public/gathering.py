"""Collect the members' statements as the leader or a deputy, and check each one on arrival."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256

from sottovoce.algorithms.cell.public.knowledge import OpenedRound, check_vector
from sottovoce.algorithms.cell.public.messages import (
    Given,
    Go,
    Offered,
    Readied,
    Said,
    Shared,
    SharesRevealed,
    Survived,
    SurvivorAck,
    Unready,
)
from sottovoce.algorithms.cell.public.signed import verified_body, with_credential
from sottovoce.algorithms.cell.public.state import Leading
from sottovoce.cell import Cell
from sottovoce.errors import MessageRefused
from sottovoce.learners.published import Provenance
from sottovoce.secure_sum.masks import check_keys
from sottovoce.secure_sum.opening import Lie
from sottovoce.secure_sum.proofs import Equivocation, FalseShare, Proof, digest_of, false_share
from sottovoce.secure_sum.share_tree import ShareTree
from sottovoce.secure_sum.statements import (
    B,
    Deal,
    Lead,
    Masked,
    Named,
    Offer,
    Ready,
    Roster,
    Shown,
    Stand,
    Statement,
    body_of,
)


@dataclass(frozen=True, slots=True)
class Led:
    """The result of handling a message as the leader.

    Attributes:
        leading: the leader's new state; None once the round is over.
        said: the messages to send, each with its recipient.
        opened: the opened round; None until the sum is opened.
        lies: members that this device caught lying, each with a description of the lie.
        proofs: proofs of lies, for the other devices.
    """

    leading: Leading | None
    said: tuple[tuple[str, Said], ...] = ()
    opened: OpenedRound | None = None
    lies: tuple[tuple[str, str], ...] = ()
    proofs: tuple[Proof, ...] = ()


class Gathering:
    """Checks and stores the messages that members send to a leader.

    Args:
        cell: the cell parameters.
        size: the vector length.
        width: maps the roster size to the number of bytes per vector element.
        provenance: verifies signatures.
    """

    def __init__(self, cell: Cell, size: int, width: Callable[[int], int], provenance: Provenance) -> None:
        self._cell, self._size, self._provenance = cell, size, provenance
        self._width = width

    def hear(self, leading: Leading | None, sender: str, said: Said, beat: int) -> Led:
        """Handle a message from a member.

        Raises:
            MessageRefused: if the message is invalid; the state is left unchanged.
        """
        if isinstance(said, Offered):
            slot = body_of(said.offer, Offer).slot
            return Led(self._store_offer(leading or Leading(slot, "offers", beat), sender, said.offer))
        if leading is None or leading.roster is None or sender not in leading.roster.owners:
            return Led(leading)
        roster, place = leading.roster, leading.roster.owners.index(sender)
        match said:
            case Shared() if leading.stage == "shares":
                return Led(self._store_shares(leading, roster, place, said))
            case Readied(_, lead) if leading.deputy:
                if body_of(lead, Lead).roster == roster.digest:
                    return self._compare_statements(leading, roster, leading.lead, lead)
            case Readied(statement) if leading.stage == "readies" and place in leading.members:
                if self._verified_body(roster, place, statement, Ready) == Ready(roster.digest, leading.round):
                    return Led(replace(leading, readies={**leading.readies, place: statement}))
            case Unready(roster=of) if leading.stage == "readies" and of == roster.digest:
                return Led(replace(leading, unready=leading.unready | {place}))
            case Go(round=h) if leading.deputy and h == leading.round:
                return Led(replace(leading, go=said))
            case Given() if leading.stage == "vectors" and place in leading.members:
                return self._store_vector(leading, roster, place, said)
            case Given() if leading.stage == "stands" and place in leading.survivors and leading.named is not None:
                return Led(leading, ((sender, Survived(leading.named)),))  # the member has just switched to this deputy
            case SurvivorAck(_, named) if leading.deputy and place in leading.members:
                if body_of(named, Named).round == leading.round and named.owner in roster.owners:
                    return self._compare_statements(
                        replace(leading, named=leading.named or named), roster, leading.named, named
                    )
            case SurvivorAck(statement) if leading.stage == "stands" and place in leading.survivors:
                if self._verified_body(roster, place, statement, Stand) == Stand(leading.round, leading.survivors):
                    return Led(replace(leading, stands={**leading.stands, place: statement}))
            case SharesRevealed() if leading.stage == "reveals" and place in leading.survivors:
                return self._store_revealed_shares(leading, roster, place, said)
        return Led(leading)

    def _store_offer(self, leading: Leading, sender: str, offer: Statement) -> Leading:
        if leading.stage != "offers":
            return leading
        if offer.owner != sender:
            raise MessageRefused("cell", "a device sent another device's offer")
        found = body_of(offer, Offer)
        check_keys(found.mask_key, found.share_key)
        self._provenance.admit(offer)
        return replace(leading, offers={**leading.offers, sender: offer})

    def _store_shares(self, leading: Leading, roster: Roster, place: int, said: Shared) -> Leading:
        """Store a member's shares after checking them against its signed commitment."""
        if (len(said.sealed), len(said.leaves)) != (len(roster), 2 * len(roster)):
            return leading
        offer = sha256(roster.statements[place].body).digest()
        deal = Deal(roster.digest, len(roster), offer, ShareTree(said.leaves).root)
        if self._verified_body(roster, place, said.said, Deal) != deal:
            raise MessageRefused("cell", "a member signed shares that differ from the ones it submitted")
        return replace(leading, dealt={**leading.dealt, place: said})

    def _store_vector(self, leading: Leading, roster: Roster, place: int, said: Given) -> Led:
        """Store a masked vector. Report the member if it signed two vectors or sent one that it did not sign."""
        if self._verified_body(roster, place, said.said, Masked).round != leading.round:
            return Led(leading)
        before = leading.vectors.get(place)
        if before is not None and before.said.body != said.said.body:
            both = (with_credential(roster, before.said), with_credential(roster, said.said))
            return Led(leading, proofs=(Equivocation(*both),))
        try:
            check_vector(said, leading.round, self._size * self._width(len(roster)))
        except Lie:
            passed_over = replace(leading, unready=leading.unready | {place})
            return Led(passed_over, lies=((roster.owners[place], "sent a masked vector that it did not sign"),))
        return Led(replace(leading, vectors={**leading.vectors, place: said}))

    def _store_revealed_shares(self, leading: Leading, roster: Roster, place: int, said: SharesRevealed) -> Led:
        """Store shares that match their dealers' commitments. Report the member if it reveals any other share."""
        revealed, gone = said.revealed, leading.gone
        shown = self._verified_body(roster, place, said.said, Shown)
        if shown.round != leading.round:
            return Led(leading)
        dealers = (tuple(one.dealer for one in revealed.seeds), tuple(one.dealer for one in revealed.mask_keys))
        if shown != Shown(leading.round, place, digest_of(revealed)) or dealers != (leading.survivors, gone):
            return Led(leading, lies=((roster.owners[place], "revealed shares other than those requested"),))
        if false_share(place, revealed, leading.members, leading.roots) is not None:
            statement = with_credential(roster, said.said)
            proof = FalseShare(statement, revealed, roster.digest, leading.members, leading.roots)
            return Led(leading, proofs=(proof,))
        return Led(replace(leading, revealed={**leading.revealed, place: revealed}))

    @staticmethod
    def _compare_statements(leading: Leading, roster: Roster, first: Statement | None, second: Statement) -> Led:
        """Report the signer of two statements if they differ."""
        if first is None or second.owner != first.owner or second.body == first.body:
            return Led(leading)
        proof = Equivocation(with_credential(roster, first), with_credential(roster, second))
        return Led(leading, proofs=(proof,))

    def _verified_body(self, roster: Roster, place: int, statement: Statement, kind: type[B]) -> B:
        return verified_body(self._provenance, roster, roster.owners[place], statement, kind)
