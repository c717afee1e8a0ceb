"""Collect and verify the members' signed statements as the leader or a deputy."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

from sottovoce.algorithms.cell.public.knowledge import OpenedRound, check_vector
from sottovoce.algorithms.cell.public.messages import (
    Agreed,
    AnyContent,
    Given,
    Go,
    Readied,
    Shared,
    SharesRevealed,
    Survived,
    SurvivorAck,
    Unready,
)
from sottovoce.algorithms.cell.public.proofs import Equivocation, FalseShare, Proof, find_false_share, revealed_digest
from sottovoce.algorithms.cell.public.state import LeaderState
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.published_records import Provenance
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.masks import check_keys
from sottovoce.privacy.secure_sum.neighbourhoods import Neighbourhoods
from sottovoce.privacy.secure_sum.opening import FalseStatement
from sottovoce.privacy.secure_sum.share_tree import ShareTree, is_sealed_by_dealer
from sottovoce.privacy.secure_sum.statements import (
    B,
    Deal,
    Lead,
    Masked,
    Offer,
    Ready,
    RevealCommitment,
    Roster,
    Signatures,
    Statement,
    SurvivorConfirmation,
    SurvivorProposal,
    body_bytes,
    decode_body,
    restore_statements,
    round_digest,
    vectors_digest,
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


def restore_deals(roster: Roster, agreement: Agreed) -> tuple[Statement, ...]:
    """Return the signed commitments of the members that a leader names, in their order, without certificates.

    Raises:
        MessageRefused: if the leader named members that are not in the roster, or left out commitments or signatures.
    """
    if len(agreement.roots) != len(agreement.members) or any(place >= len(roster) for place in agreement.members):
        raise MessageRefused("malformed", "a leader's list of members does not fit the roster")
    bodies = [
        body_bytes(Deal(roster.digest, len(roster), sha256(roster.statements[member].body).digest(), root))
        for member, root in zip(agreement.members, agreement.roots, strict=True)
    ]
    return restore_statements(roster, Signatures(agreement.members, agreement.signatures), bodies)


def restore_masked(roster: Roster, named: SurvivorProposal, survived: Survived) -> tuple[Statement, ...]:
    """Return the survivors' statements about their vectors, in roster order, without certificates.

    Raises:
        MessageRefused: if the leader named survivors that are not in the roster, or left out digests or signatures.
    """
    bodies = [body_bytes(Masked(named.round, vector)) for vector in survived.vectors]
    return restore_statements(roster, Signatures(named.survivors, survived.signatures), bodies)


def survivors_message(named: Statement, vectors: Mapping[int, Given]) -> Survived:
    """Return a leader's list of survivors, with the digests of their vectors that they signed.

    Args:
        named: the leader's statement of the survivors.
        vectors: the survivors' signed masked vectors, by roster index, in roster order.
    """
    digests = tuple(decode_body(given.statement, Masked).vector for given in vectors.values())
    return Survived(named, digests, tuple(given.statement.signature for given in vectors.values()))


def verify_roots(
    provenance: Provenance, roster: Roster, graph: Neighbourhoods, recipient: int, agreement: Agreed, lead: Lead
) -> tuple[bytes, ...] | None:
    """Return the members' commitments, or None if the leader carried something other than what the members signed.

    Every member signs a commitment to the shares that it sealed for each recipient, and the leader checks it. So a
    commitment that does not cover the sealed shares for this device means that the leader lied.
    """
    try:
        for deal in restore_deals(roster, agreement):
            verify_body(provenance, roster, deal.owner, deal, Deal)
        roots = dict(zip(agreement.members, agreement.roots, strict=True))
        dealers = graph.present_holders(recipient, agreement.members)
        carried = zip(dealers, agreement.sealed, agreement.pairs, agreement.paths, strict=True)
        for dealer, sealed, pair, path in carried:
            rank = graph.rank(dealer, recipient)
            if rank is None or not is_sealed_by_dealer(rank, sealed, pair, path, roots[dealer], graph.holder_count):
                return None
    except (MessageRefused, IndexError, ValueError):
        return None
    is_whole = list(agreement.members) == sorted({*agreement.members}) and recipient in agreement.members
    digest = round_digest(graph, agreement.members, agreement.roots) if is_whole else None
    return agreement.roots if lead.round == digest else None


def verify_survivors(provenance: Provenance, roster: Roster, named: SurvivorProposal, survived: Survived) -> bool:
    """Return whether each survivor that a leader names signed the vector that the leader names for it."""
    try:
        for statement in restore_masked(roster, named, survived):
            verify_body(provenance, roster, statement.owner, statement, Masked)
    except MessageRefused:
        return False
    return named.vectors == vectors_digest(survived.vectors)


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

    def check_offer(self, sender: str, statement: Statement) -> Offer:
        """Check that a device offers to take part, and return its offer.

        Raises:
            MessageRefused: if the device did not sign the offer, its keys are unusable, or it is not in the fleet now.
        """
        if statement.owner != sender:
            raise MessageRefused("cell", "a device sent another device's offer")
        offer = decode_body(statement, Offer)
        check_keys(offer.mask_key, offer.share_key)
        self._provenance.admit(statement)
        return offer

    def handle(self, leading: LeaderState | None, sender: str, content: AnyContent) -> LeaderUpdate:
        """Handle a message from a member.

        Raises:
            MessageRefused: if the message is invalid; the state is left unchanged.
        """
        if leading is None or sender not in leading.roster.owners:
            return LeaderUpdate(leading)
        roster, position = leading.roster, leading.roster.owners.index(sender)
        match content:
            case Shared() if leading.stage == "shares":
                return self._store_shares(leading, roster, position, content)
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
                vectors = {survivor: leading.vectors[survivor] for survivor in leading.survivors}
                return LeaderUpdate(leading, ((sender, survivors_message(leading.named, vectors)),))
            case SurvivorAck(_, named) if leading.deputy and position in leading.members:
                if decode_body(named, SurvivorProposal).round == leading.round and named.owner in roster.owners:
                    return self._compare_statements(
                        replace(leading, named=leading.named or named), roster, leading.named, named
                    )
            case SurvivorAck(statement) if leading.stage == "stands" and position in leading.survivors:
                stand = self._verify_body(roster, position, statement, SurvivorConfirmation)
                if leading.named is not None and body_bytes(stand) == _confirmation_of(leading.named):
                    return LeaderUpdate(replace(leading, stands={**leading.stands, position: statement}))
            case SharesRevealed() if leading.stage == "reveals" and position in leading.survivors:
                return self._store_revealed_shares(leading, roster, position, content)
        return LeaderUpdate(leading)

    def _store_shares(self, leading: LeaderState, roster: Roster, position: int, shared: Shared) -> LeaderUpdate:
        """Store a member's shares. Report the member if it sent other shares than those to which it committed."""
        signed = self._verify_body(roster, position, shared.statement, Deal)
        if signed.roster != roster.digest:
            return LeaderUpdate(leading)
        offer = sha256(roster.statements[position].body).digest()
        holders = leading.graph(self._cell).holder_count
        is_whole = (len(shared.sealed), len(shared.leaves)) == (holders, 2 * holders)
        if not is_whole or signed != Deal(
            roster.digest, len(roster), offer, ShareTree(shared.leaves, shared.sealed).root
        ):
            return LeaderUpdate(leading, lies=((roster.owners[position], "sent shares that it did not sign"),))
        return LeaderUpdate(replace(leading, dealt={**leading.dealt, position: shared}))

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
        revealed, graph = content.revealed, leading.graph(self._cell)
        shown = self._verify_body(roster, position, content.statement, RevealCommitment)
        if shown.round != leading.round:
            return LeaderUpdate(leading)
        if shown != RevealCommitment(leading.round, position, revealed_digest(revealed)):
            return LeaderUpdate(leading, lies=((roster.owners[position], "revealed shares that it did not sign"),))
        dealers = (tuple(share.dealer for share in revealed.seeds), tuple(share.dealer for share in revealed.mask_keys))
        held = graph.present_holders(position, leading.survivors), graph.present_holders(position, leading.gone)
        if dealers != held:
            return LeaderUpdate(leading)  # no lie: another leader may have named other survivors to this member
        if find_false_share(graph, position, revealed, leading.members, leading.roots) is not None:
            statement = with_credential(roster, content.statement)
            proof = FalseShare(statement, revealed, roster.digest, len(roster), leading.members, leading.roots)
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

    def compare_vectors(self, leading: LeaderState, roster: Roster, masked: Iterable[Statement]) -> LeaderUpdate:
        """Report the members that signed a vector for this device other than the one that a leader names."""
        proofs = []
        for statement in masked:
            held = leading.vectors.get(roster.owners.index(statement.owner))
            if held is not None and held.statement.body != statement.body:
                proofs.append(Equivocation(with_credential(roster, held.statement), with_credential(roster, statement)))
        return LeaderUpdate(leading, proofs=tuple(proofs))

    def _verify_body(self, roster: Roster, position: int, statement: Statement, kind: type[B]) -> B:
        return verify_body(self._provenance, roster, roster.owners[position], statement, kind)


def _confirmation_of(named: Statement) -> bytes:
    """Return the body with which a survivor confirms a leader's statement."""
    proposal = decode_body(named, SurvivorProposal)
    return body_bytes(SurvivorConfirmation(proposal.round, proposal.survivors, proposal.vectors))
