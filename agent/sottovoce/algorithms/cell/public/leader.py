"""A round's leader relays messages and opens the sum. It has no privileges: members check all its messages."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from sottovoce.algorithms.cell.public.gathering import LeaderUpdate, restore_deals, survivors_message
from sottovoce.algorithms.cell.public.knowledge import OpenedRound
from sottovoce.algorithms.cell.public.messages import (
    Agreed,
    AnyContent,
    Go,
    Over,
    Quorum,
    Result,
    RosterProposal,
)
from sottovoce.algorithms.cell.public.proofs import InvalidShares
from sottovoce.algorithms.cell.public.state import LeaderState
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.published_records import Provenance
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.neighbourhoods import Neighbourhoods
from sottovoce.privacy.secure_sum.opening import Opening, Secrets, VerifiedOpening, recover_secrets, shares_by_dealer
from sottovoce.privacy.secure_sum.share_tree import ShareTree
from sottovoce.privacy.secure_sum.statements import (
    Body,
    Deal,
    Lead,
    Masked,
    Offer,
    Roster,
    Statement,
    SurvivorProposal,
    body_bytes,
    decode_body,
    roster_from_offers,
    round_digest,
    signatures_of,
    vectors_digest,
)

LEADER_PATIENCE_BEATS = 8
"""How long a leader waits for the missing messages of a step, once it has enough offers
(docs/explanation/secure-sums.md)."""


class Leader:
    """The leader's side of a round.

    Args:
        owner: the id of this device.
        cell: the cell parameters.
        size: the vector length.
        provenance: signs statements.
    """

    def __init__(self, owner: str, cell: Cell, size: int, provenance: Provenance) -> None:
        self._owner, self._cell, self._size, self._provenance = owner, cell, size, provenance

    def advance(self, leading: LeaderState, beat: int) -> LeaderUpdate:
        """Move to the next stage once all expected messages have arrived, or once enough have arrived by the timeout.

        Messages are checked on arrival. If one still fails a check here, the round ends.

        Args:
            leading: the leader's state.
            beat: the current beat.
        """
        if leading.deputy:
            return LeaderUpdate(leading)
        late = beat - leading.since >= LEADER_PATIENCE_BEATS
        try:
            match leading.stage:
                case "shares":
                    return self._agree(leading, beat, late=late)
                case "readies":
                    return self._begin(leading, beat, late=late)
                case "vectors":
                    return self._determine_survivors(leading, beat, late=late)
                case "stands":
                    return self._request_reveals(leading, beat, late=late)
                case _:
                    return self._open(leading, late=late)
        except MessageRefused:
            return LeaderUpdate(None)

    def propose_roster(
        self, offers: Mapping[str, Statement], expected: Collection[str], quorum_beat: int | None, beat: int
    ) -> LeaderUpdate | None:
        """Propose a roster once all expected offers are there, or enough of them for a while; None to keep waiting.

        Args:
            offers: the offers of devices that may be in the roster, by owner.
            expected: the devices whose offers the leader waits for.
            quorum_beat: the beat on which there were first enough offers; None if there are too few.
            beat: the current beat.
        """
        if quorum_beat is None:
            return None
        complete = len(offers) >= self._cell.most or offers.keys() >= {*expected}
        if not complete and beat - quorum_beat < LEADER_PATIENCE_BEATS:
            return None
        agreeing = self.majority(offers)
        roster = roster_from_offers([agreeing[owner] for owner in sorted(agreeing)[: self._cell.most]])
        leading = LeaderState(roster.offers[0].slot, "shares", beat, roster)
        return LeaderUpdate(leading, _messages_to(roster.owners, RosterProposal.of(roster.statements)))

    @staticmethod
    def majority(offers: Mapping[str, Statement]) -> Mapping[str, Statement]:
        """Return the offers made at the most common model."""
        points = {owner: decode_body(offer, Offer).point for owner, offer in offers.items()}
        most_common = max(sorted(set(points.values())), key=list(points.values()).count, default=b"")
        return {owner: offer for owner, offer in offers.items() if points[owner] == most_common}

    @staticmethod
    def new_deputy(roster: Roster, agreement: Agreed, beat: int) -> LeaderState:
        """Return the state of a new deputy, which receives the same messages as the leader from now on."""
        deals = dict(zip(agreement.members, restore_deals(roster, agreement), strict=True))
        return LeaderState(
            roster.offers[0].slot,
            "vectors",
            beat,
            roster,
            members=agreement.members,
            deals=deals,
            round=decode_body(agreement.statement, Lead).round,
            lead=agreement.statement,
            deputy=True,
        )

    def take_over(self, leading: LeaderState, named: Statement | None, beat: int) -> LeaderUpdate:
        """Take over as a deputy, reusing any acknowledged survivors; end the round if their vectors are missing."""
        named = named or leading.named
        leading = replace(leading, deputy=False, since=beat, named=None)
        if named is None:
            return LeaderUpdate(
                leading, () if leading.go is None else _messages_to(_owners_at(leading, leading.members), leading.go)
            )
        proposal = decode_body(named, SurvivorProposal)
        survivors = proposal.survivors
        if not leading.vectors.keys() >= {*survivors} or _digest_of(leading, survivors) != proposal.vectors:
            return LeaderUpdate(None)
        return self._announce_survivors(leading, survivors, beat)

    def _agree(self, leading: LeaderState, beat: int, *, late: bool) -> LeaderUpdate:
        roster, dealt = leading.roster, leading.dealt
        members = tuple(sorted(dealt))
        if len(members) < len(roster) and not late:
            return LeaderUpdate(leading)
        graph = leading.graph(self._cell)
        if len(members) < self._cell.opening_threshold(len(roster)) or not graph.joins(members):
            return _abort_round(roster)
        deals = {member: dealt[member].statement for member in members}
        roots = tuple(decode_body(deal, Deal).root for deal in deals.values())
        h, signatures = round_digest(graph, members, roots), signatures_of(deals).signatures
        lead = self._sign(Lead(roster.digest, h))
        trees = {member: ShareTree(dealt[member].leaves, dealt[member].sealed) for member in members}
        agreements = []
        for member in members:
            ranks = {dealer: graph.rank(dealer, member) for dealer in graph.present_holders(member, members)}
            held = [(dealer, rank) for dealer, rank in ranks.items() if rank is not None]
            sealed = tuple(dealt[dealer].sealed[rank] for dealer, rank in held)
            pairs = tuple(trees[dealer].pair(rank) for dealer, rank in held)
            paths = tuple(trees[dealer].path(rank) for dealer, rank in held)
            agreement = Agreed(members, sealed, pairs, paths, roots, signatures, lead)
            agreements.append((roster.owners[member], agreement))
        stage = LeaderState(leading.slot, "readies", beat, roster, members=members, deals=deals, round=h, lead=lead)
        return LeaderUpdate(stage, tuple(agreements))

    def _begin(self, leading: LeaderState, beat: int, *, late: bool) -> LeaderUpdate:
        """Start the round once enough members are ready. No member is charged before that."""
        roster = leading.roster
        if leading.readies.keys() | leading.unready < {*leading.members} and not late:
            return LeaderUpdate(leading)
        if len(leading.readies) < self._cell.opening_threshold(len(roster)):
            return _abort_round(roster)
        ready = sorted(leading.readies)
        go = Go(leading.round, signatures_of(leading.readies))
        unready = frozenset(leading.members) - {*ready}
        leading = replace(leading, stage="vectors", since=beat, readies={}, unready=unready)
        return LeaderUpdate(leading, _messages_to(_owners_at(leading, ready), go))

    def _determine_survivors(self, leading: LeaderState, beat: int, *, late: bool) -> LeaderUpdate:
        survivors = tuple(sorted(leading.vectors))
        if not {*survivors} >= {*leading.members} - leading.unready and not late:
            return LeaderUpdate(leading)
        is_enough = len(survivors) >= self._cell.opening_threshold(len(leading.roster))
        if not is_enough or not leading.graph(self._cell).joins(survivors):
            return LeaderUpdate(None if late else leading)
        return self._announce_survivors(leading, survivors, beat)

    def _announce_survivors(self, leading: LeaderState, survivors: tuple[int, ...], beat: int) -> LeaderUpdate:
        named = self._sign(SurvivorProposal(leading.round, survivors, _digest_of(leading, survivors)))
        vectors = {position: leading.vectors[position] for position in survivors}
        leading = replace(
            leading, stage="stands", since=beat, vectors=vectors, survivors=survivors, stands={}, named=named
        )
        return LeaderUpdate(leading, _messages_to(_owners_at(leading, survivors), survivors_message(named, vectors)))

    def _request_reveals(self, leading: LeaderState, beat: int, *, late: bool) -> LeaderUpdate:
        needed = self._cell.opening_threshold(len(leading.roster))
        if len(leading.stands) < needed:
            return LeaderUpdate(None if late else leading)
        quorum = Quorum(leading.round, signatures_of(leading.stands))
        return LeaderUpdate(
            replace(leading, stage="reveals", since=beat), _messages_to(_owners_at(leading, leading.survivors), quorum)
        )

    def _open(self, leading: LeaderState, *, late: bool) -> LeaderUpdate:
        roster = leading.roster
        graph = leading.graph(self._cell)
        if not graph.opens(leading.revealed, leading.members):
            return LeaderUpdate(None if late else leading)
        secrets = recover_secrets(roster, graph, leading.members, leading.survivors, leading.revealed)
        if secrets.cheaters:
            return LeaderUpdate(
                None,
                proofs=tuple(_worthless_shares_proof(leading, graph, position) for position in secrets.cheaters),
            )
        return self._publish_opening(leading, graph, secrets)

    @staticmethod
    def _publish_opening(leading: LeaderState, graph: Neighbourhoods, secrets: Secrets) -> LeaderUpdate:
        roster = leading.roster
        opening = Opening(
            roster.statements,
            leading.members,
            leading.roots,
            leading.survivors,
            _vector_digests(leading, leading.survivors),
            signatures_of(leading.stands),
            secrets.seeds,
            secrets.mask_keys,
        )
        vectors = {position: given.vector for position, given in leading.vectors.items()}
        opened = OpenedRound(VerifiedOpening(opening, roster, graph, leading.round), vectors)
        result = Result(structs.replace(opening, roster=()), roster.digest)
        return LeaderUpdate(None, _messages_to(roster.owners, result), opened)

    def _sign(self, body: Body) -> Statement:
        return replace(self._provenance.sign(Statement(self._owner, body_bytes(body))), credential=b"")


def _worthless_shares_proof(leading: LeaderState, graph: Neighbourhoods, dealer: int) -> InvalidShares:
    """Return the proof that a member dealt shares that do not recover the secret in its offer."""
    for_mask_key = dealer not in leading.survivors
    offer = leading.roster.statements[dealer]
    deal = replace(leading.deals[dealer], credential=offer.credential)
    shares = shares_by_dealer(graph, leading.revealed)[dealer]
    return InvalidShares(offer, deal, for_mask_key, tuple(shares), tuple(shares.values()))


def _vector_digests(leading: LeaderState, survivors: Iterable[int]) -> tuple[bytes, ...]:
    return tuple(decode_body(leading.vectors[position].statement, Masked).vector for position in survivors)


def _digest_of(leading: LeaderState, survivors: Iterable[int]) -> bytes:
    return vectors_digest(_vector_digests(leading, survivors))


def _abort_round(roster: Roster) -> LeaderUpdate:
    return LeaderUpdate(None, _messages_to(roster.owners, Over(roster.digest)))


def _owners_at(leading: LeaderState, positions: Sequence[int]) -> list[str]:
    owners = leading.roster.owners
    return [owners[position] for position in positions]


def _messages_to(owners: Iterable[str], content: AnyContent) -> tuple[tuple[str, AnyContent], ...]:
    return tuple((owner, content) for owner in owners)
