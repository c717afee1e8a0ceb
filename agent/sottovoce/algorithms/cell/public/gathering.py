"""Collect and verify the members' signed statements as the leader or a deputy."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256

from sottovoce.algorithms.cell.public.knowledge import OpenedRound, check_vector
from sottovoce.algorithms.cell.public.messages import (
    Agreed,
    AnyContent,
    Given,
    Go,
    Offered,
    Readied,
    Shared,
    SharesRevealed,
    Survived,
    SurvivorAck,
    Unready,
)
from sottovoce.algorithms.cell.public.state import LeaderState
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.published_records import Provenance
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.masks import check_keys
from sottovoce.privacy.secure_sum.opening import FalseStatement
from sottovoce.privacy.secure_sum.proofs import Equivocation, FalseShare, Proof, find_false_share, revealed_digest
from sottovoce.privacy.secure_sum.share_tree import ShareTree
from sottovoce.privacy.secure_sum.statements import (
    B,
    Deal,
    Lead,
    Masked,
    Offer,
    Ready,
    RevealCommitment,
    Roster,
    Statement,
    SurvivorConfirmation,
    SurvivorProposal,
    decode_body,
    round_digest,
)


def verify_body(provenance: Provenance, roster: Roster, owner: str, statement: Statement, kind: type[B]) -> B:
    """Verify a member's statement with the certificate from the roster, and return the statement's body.

    Raises:
        MessageRefused: if the member did not sign the statement.
    """
    if statement.owner != owner or owner not in roster.owners:
        raise MessageRefused("cell", "the statement was signed by a device other than its sender")
    credential = roster.statements[roster.owners.index(owner)].credential
    provenance.verify(replace(statement, credential=credential))
    return decode_body(statement, kind)


def with_credential(roster: Roster, statement: Statement) -> Statement:
    """Return a member's statement with its certificate attached, for devices without the roster."""
    return replace(statement, credential=roster.statements[roster.owners.index(statement.owner)].credential)


def verify_roots(provenance: Provenance, roster: Roster, agreement: Agreed, lead: Lead) -> tuple[bytes, ...] | None:
    """Return the members' commitments, or None if one is invalid or the leader's signed digest does not match them.

    Every member signs its own commitment, so an invalid one means that the leader lied.
    """
    roots = []
    try:
        for member, deal in zip(agreement.members, agreement.deals, strict=True):
            body = verify_body(provenance, roster, roster.owners[member], deal, Deal)
            offer = sha256(roster.statements[member].body).digest()
            if body != Deal(roster.digest, len(roster), offer, body.root):
                return None
            roots.append(body.root)
    except (MessageRefused, IndexError, ValueError):
        return None
    return tuple(roots) if lead.round == round_digest(roster.digest, agreement.members, roots) else None


@dataclass(frozen=True, slots=True)
class LeaderUpdate:
    """The result of handling a message as the leader.

    Attributes:
        leading: the leader's new state; None once the round is over.
        messages: the messages to send, each with its recipient.
        opened: the opened round; None until the sum is opened.
        lies: members that this device caught lying, each with a description of the lie.
        proofs: proofs of lies, for the other devices.
    """

    leading: LeaderState | None
    messages: tuple[tuple[str, AnyContent], ...] = ()
    opened: OpenedRound | None = None
    lies: tuple[tuple[str, str], ...] = ()
    proofs: tuple[Proof, ...] = ()


class StatementCollector:
    """Checks and stores the messages that members send to a leader.

    Args:
        cell: the cell parameters.
        size: the vector length.
        bytes_per_element: maps the roster size to the number of bytes per vector element.
        provenance: verifies signatures.
    """

    def __init__(self, cell: Cell, size: int, bytes_per_element: Callable[[int], int], provenance: Provenance) -> None:
        self._cell, self._size, self._provenance = cell, size, provenance
        self._bytes_per_element = bytes_per_element

    def handle(self, leading: LeaderState | None, sender: str, content: AnyContent, beat: int) -> LeaderUpdate:
        """Handle a message from a member.

        Raises:
            MessageRefused: if the message is invalid; the state is left unchanged.
        """
        if isinstance(content, Offered):
            slot = decode_body(content.offer, Offer).slot
            return LeaderUpdate(self._store_offer(leading or LeaderState(slot, "offers", beat), sender, content.offer))
        if leading is None or leading.roster is None or sender not in leading.roster.owners:
            return LeaderUpdate(leading)
        roster, position = leading.roster, leading.roster.owners.index(sender)
        match content:
            case Shared() if leading.stage == "shares":
                return LeaderUpdate(self._store_shares(leading, roster, position, content))
            case Readied(_, lead) if leading.deputy:
                if decode_body(lead, Lead).roster == roster.digest:
                    return self._compare_statements(leading, roster, leading.lead, lead)
            case Readied(statement) if leading.stage == "readies" and position in leading.members:
                if self._verify_body(roster, position, statement, Ready) == Ready(roster.digest, leading.round):
                    return LeaderUpdate(replace(leading, readies={**leading.readies, position: statement}))
            case Unready(roster=digest) if leading.stage == "readies" and digest == roster.digest:
                return LeaderUpdate(replace(leading, unready=leading.unready | {position}))
            case Go(round=h) if leading.deputy and h == leading.round:
                return LeaderUpdate(replace(leading, go=content))
            case Given() if leading.stage == "vectors" and position in leading.members:
                return self._store_vector(leading, roster, position, content)
            case Given() if leading.stage == "stands" and position in leading.survivors and leading.named is not None:
                # The member has just switched to this deputy.
                return LeaderUpdate(leading, ((sender, Survived(leading.named)),))
            case SurvivorAck(_, named) if leading.deputy and position in leading.members:
                if decode_body(named, SurvivorProposal).round == leading.round and named.owner in roster.owners:
                    return self._compare_statements(
                        replace(leading, named=leading.named or named), roster, leading.named, named
                    )
            case SurvivorAck(statement) if leading.stage == "stands" and position in leading.survivors:
                if self._verify_body(roster, position, statement, SurvivorConfirmation) == SurvivorConfirmation(
                    leading.round, leading.survivors
                ):
                    return LeaderUpdate(replace(leading, stands={**leading.stands, position: statement}))
            case SharesRevealed() if leading.stage == "reveals" and position in leading.survivors:
                return self._store_revealed_shares(leading, roster, position, content)
        return LeaderUpdate(leading)

    def _store_offer(self, leading: LeaderState, sender: str, offer: Statement) -> LeaderState:
        if leading.stage != "offers":
            return leading
        if offer.owner != sender:
            raise MessageRefused("cell", "a device sent another device's offer")
        body = decode_body(offer, Offer)
        check_keys(body.mask_key, body.share_key)
        self._provenance.admit(offer)
        return replace(leading, offers={**leading.offers, sender: offer})

    def _store_shares(self, leading: LeaderState, roster: Roster, position: int, shared: Shared) -> LeaderState:
        """Store a member's shares after checking them against its signed commitment."""
        if (len(shared.sealed), len(shared.leaves)) != (len(roster), 2 * len(roster)):
            return leading
        offer = sha256(roster.statements[position].body).digest()
        deal = Deal(roster.digest, len(roster), offer, ShareTree(shared.leaves).root)
        if self._verify_body(roster, position, shared.statement, Deal) != deal:
            raise MessageRefused("cell", "a member signed shares that differ from those that it submitted")
        return replace(leading, dealt={**leading.dealt, position: shared})

    def _store_vector(self, leading: LeaderState, roster: Roster, position: int, given: Given) -> LeaderUpdate:
        """Store a masked vector. Report the member if it signed two vectors or sent one that it did not sign."""
        if self._verify_body(roster, position, given.statement, Masked).round != leading.round:
            return LeaderUpdate(leading)
        previous = leading.vectors.get(position)
        if previous is not None and previous.statement.body != given.statement.body:
            statements = (with_credential(roster, previous.statement), with_credential(roster, given.statement))
            return LeaderUpdate(leading, proofs=(Equivocation(*statements),))
        try:
            check_vector(given, leading.round, self._size * self._bytes_per_element(len(roster)))
        except FalseStatement:
            updated = replace(leading, unready=leading.unready | {position})
            return LeaderUpdate(updated, lies=((roster.owners[position], "sent a masked vector that it did not sign"),))
        return LeaderUpdate(replace(leading, vectors={**leading.vectors, position: given}))

    def _store_revealed_shares(
        self, leading: LeaderState, roster: Roster, position: int, content: SharesRevealed
    ) -> LeaderUpdate:
        """Store shares that match their dealers' commitments. Report the member if it reveals any other share."""
        revealed, gone = content.revealed, leading.gone
        shown = self._verify_body(roster, position, content.statement, RevealCommitment)
        if shown.round != leading.round:
            return LeaderUpdate(leading)
        dealers = (tuple(share.dealer for share in revealed.seeds), tuple(share.dealer for share in revealed.mask_keys))
        if shown != RevealCommitment(leading.round, position, revealed_digest(revealed)) or dealers != (
            leading.survivors,
            gone,
        ):
            return LeaderUpdate(
                leading, lies=((roster.owners[position], "revealed shares other than those requested"),)
            )
        if find_false_share(position, revealed, leading.members, leading.roots) is not None:
            statement = with_credential(roster, content.statement)
            proof = FalseShare(statement, revealed, roster.digest, leading.members, leading.roots)
            return LeaderUpdate(leading, proofs=(proof,))
        return LeaderUpdate(replace(leading, revealed={**leading.revealed, position: revealed}))

    @staticmethod
    def _compare_statements(
        leading: LeaderState, roster: Roster, first: Statement | None, second: Statement
    ) -> LeaderUpdate:
        """Report the signer of two statements if they differ."""
        if first is None or second.owner != first.owner or second.body == first.body:
            return LeaderUpdate(leading)
        proof = Equivocation(with_credential(roster, first), with_credential(roster, second))
        return LeaderUpdate(leading, proofs=(proof,))

    def _verify_body(self, roster: Roster, position: int, statement: Statement, kind: type[B]) -> B:
        return verify_body(self._provenance, roster, roster.owners[position], statement, kind)
