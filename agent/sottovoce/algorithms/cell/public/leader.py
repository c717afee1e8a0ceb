"""A round's leader relays messages and opens the sum. It has no privileges: members check all its messages."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sottovoce.algorithms.cell.public.gathering import LeaderUpdate
from sottovoce.algorithms.cell.public.knowledge import OpenedRound
from sottovoce.algorithms.cell.public.messages import (
    Agreed,
    AnyContent,
    Go,
    Over,
    Quorum,
    Result,
    RosterProposal,
    Survived,
)
from sottovoce.algorithms.cell.public.state import LeaderState
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.published_records import Provenance
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.opening import Opening, Secrets, VerifiedOpening, recover_secrets
from sottovoce.privacy.secure_sum.proofs import InvalidShares
from sottovoce.privacy.secure_sum.share_tree import ShareTree
from sottovoce.privacy.secure_sum.statements import (
    Body,
    Deal,
    Lead,
    Offer,
    Roster,
    Statement,
    SurvivorProposal,
    body_bytes,
    decode_body,
    roster_from_offers,
    round_digest,
)
from sottovoce.privacy.secure_sum.steps import Revealed

_GATHERING_BEATS = 12  # how long the leader waits for offers
_PATIENCE_BEATS = 8  # how long it waits in each later step (docs/explanation/secure-sums.md)


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

    def advance(
        self, leading: LeaderState, expected: frozenset[str], excluded: frozenset[str], beat: int
    ) -> LeaderUpdate:
        """Move to the next stage once all expected messages have arrived, or once enough have arrived by the timeout.

        Messages are checked on arrival. If one still fails a check here, the round ends.

        Args:
            leading: the leader's state.
            expected: the devices whose offers the leader waits for.
            excluded: the devices excluded from every roster.
            beat: the current beat.
        """
        try:
            return self._advance_stage(leading, expected, excluded, beat)
        except MessageRefused:
            return LeaderUpdate(None)

    def _advance_stage(
        self, leading: LeaderState, expected: frozenset[str], excluded: frozenset[str], beat: int
    ) -> LeaderUpdate:
        if leading.deputy:
            return LeaderUpdate(leading)
        late = beat - leading.since >= (_GATHERING_BEATS if leading.stage == "offers" else _PATIENCE_BEATS)
        match leading.stage:
            case "offers":
                return self._propose_roster(leading, expected - excluded, excluded, beat, late=late)
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

    @staticmethod
    def new_deputy(roster: Roster, agreement: Agreed, beat: int) -> LeaderState:
        """Return the state of a new deputy, which receives the same messages as the leader from now on."""
        deals = dict(zip(agreement.members, agreement.deals, strict=True))
        return LeaderState(
            roster.offers[0].slot,
            "vectors",
            beat,
            roster=roster,
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
        survivors = decode_body(named, SurvivorProposal).survivors
        if not leading.vectors.keys() >= {*survivors}:
            return LeaderUpdate(None)
        return self._announce_survivors(leading, survivors, beat)

    def _propose_roster(
        self, leading: LeaderState, expected: frozenset[str], excluded: Collection[str], beat: int, *, late: bool
    ) -> LeaderUpdate:
        eligible = {owner: offer for owner, offer in leading.offers.items() if owner not in excluded}
        complete = len(eligible) >= self._cell.most or expected <= eligible.keys()
        offers = _majority_offers(eligible)
        if not late and not complete:
            return LeaderUpdate(leading)
        if len(offers) < self._cell.least:
            return LeaderUpdate(None if late else leading)
        roster = roster_from_offers([offers[owner] for owner in sorted(offers)[: self._cell.most]])
        proposal = RosterProposal(roster.statements)
        return LeaderUpdate(
            LeaderState(leading.slot, "shares", beat, roster=roster), _messages_to(roster.owners, proposal)
        )

    def _agree(self, leading: LeaderState, beat: int, *, late: bool) -> LeaderUpdate:
        roster, dealt = _roster(leading), leading.dealt
        members = tuple(sorted(dealt))
        if len(members) < len(roster) and not late:
            return LeaderUpdate(leading)
        if len(members) < self._cell.opening_threshold(len(roster)):
            return _abort_round(roster)
        deals = {member: dealt[member].statement for member in members}
        h = round_digest(roster.digest, members, [decode_body(deal, Deal).root for deal in deals.values()])
        lead = self._sign(Lead(roster.digest, h))
        trees = [ShareTree(dealt[member].leaves) for member in members]
        agreements = tuple(
            (
                roster.owners[member],
                Agreed(
                    members,
                    tuple(dealt[dealer].sealed[member] for dealer in members),
                    tuple(tree.path(member) for tree in trees),
                    tuple(deals.values()),
                    lead,
                ),
            )
            for member in members
        )
        stage = LeaderState(
            leading.slot, "readies", beat, roster=roster, members=members, deals=deals, round=h, lead=lead
        )
        return LeaderUpdate(stage, agreements)

    def _begin(self, leading: LeaderState, beat: int, *, late: bool) -> LeaderUpdate:
        """Start the round once enough members are ready. No member is charged before that."""
        roster = _roster(leading)
        if leading.readies.keys() | leading.unready < {*leading.members} and not late:
            return LeaderUpdate(leading)
        if len(leading.readies) < self._cell.opening_threshold(len(roster)):
            return _abort_round(roster)
        ready = sorted(leading.readies)
        go = Go(leading.round, tuple(leading.readies[position] for position in ready))
        unready = frozenset(leading.members) - {*ready}
        leading = replace(leading, stage="vectors", since=beat, readies={}, unready=unready)
        return LeaderUpdate(leading, _messages_to(_owners_at(leading, ready), go))

    def _determine_survivors(self, leading: LeaderState, beat: int, *, late: bool) -> LeaderUpdate:
        survivors = tuple(sorted(leading.vectors))
        if not {*survivors} >= {*leading.members} - leading.unready and not late:
            return LeaderUpdate(leading)
        if len(survivors) < self._cell.opening_threshold(len(_roster(leading))):
            return LeaderUpdate(None if late else leading)
        return self._announce_survivors(leading, survivors, beat)

    def _announce_survivors(self, leading: LeaderState, survivors: tuple[int, ...], beat: int) -> LeaderUpdate:
        named = self._sign(SurvivorProposal(leading.round, survivors))
        vectors = {position: leading.vectors[position] for position in survivors}
        leading = replace(
            leading, stage="stands", since=beat, vectors=vectors, survivors=survivors, stands={}, named=named
        )
        return LeaderUpdate(leading, _messages_to(_owners_at(leading, survivors), Survived(named)))

    def _request_reveals(self, leading: LeaderState, beat: int, *, late: bool) -> LeaderUpdate:
        needed = self._cell.opening_threshold(len(_roster(leading)))
        if len(leading.stands) < needed:
            return LeaderUpdate(None if late else leading)
        quorum = Quorum(leading.round, tuple(leading.stands[position] for position in sorted(leading.stands)))
        return LeaderUpdate(
            replace(leading, stage="reveals", since=beat), _messages_to(_owners_at(leading, leading.survivors), quorum)
        )

    def _open(self, leading: LeaderState, *, late: bool) -> LeaderUpdate:
        roster = _roster(leading)
        needed = self._cell.opening_threshold(len(roster))
        if len(leading.revealed) < needed:
            return LeaderUpdate(None if late else leading)
        chosen = {position: leading.revealed[position] for position in sorted(leading.revealed)[:needed]}
        secrets = recover_secrets(roster, leading.members, leading.survivors, chosen)
        if secrets.cheaters:
            return LeaderUpdate(
                None,
                proofs=tuple(
                    _worthless_shares_proof(leading, roster, position, chosen) for position in secrets.cheaters
                ),
            )
        return self._publish_opening(leading, roster, secrets)

    @staticmethod
    def _publish_opening(leading: LeaderState, roster: Roster, secrets: Secrets) -> LeaderUpdate:
        stands = tuple(leading.stands[position] for position in sorted(leading.stands))
        opening = Opening(roster.statements, leading.members, leading.roots, stands, secrets.seeds, secrets.mask_keys)
        opened = OpenedRound(VerifiedOpening(opening, roster, leading.round, leading.survivors), leading.vectors)
        return LeaderUpdate(None, _messages_to(roster.owners, Result(opening)), opened)

    def _sign(self, body: Body) -> Statement:
        return replace(self._provenance.sign(Statement(self._owner, body_bytes(body))), credential=b"")


def _worthless_shares_proof(
    leading: LeaderState, roster: Roster, dealer: int, revealed: Mapping[int, Revealed]
) -> InvalidShares:
    """Return the proof that a member dealt shares that do not recover the secret in its offer."""
    for_mask_key = dealer not in leading.survivors
    index = leading.gone.index(dealer) if for_mask_key else leading.survivors.index(dealer)
    offer = roster.statements[dealer]
    deal = replace(leading.deals[dealer], credential=offer.credential)
    recipients = tuple(sorted(revealed))
    shares = tuple(
        (revealed[recipient].mask_keys if for_mask_key else revealed[recipient].seeds)[index]
        for recipient in recipients
    )
    return InvalidShares(offer, deal, for_mask_key, recipients, shares)


def _abort_round(roster: Roster) -> LeaderUpdate:
    return LeaderUpdate(None, _messages_to(roster.owners, Over(roster.digest)))


def _roster(leading: LeaderState) -> Roster:
    if leading.roster is None:
        raise MessageRefused("cell", "this device is not leading a round")
    return leading.roster


def _owners_at(leading: LeaderState, positions: Sequence[int]) -> list[str]:
    owners = _roster(leading).owners
    return [owners[position] for position in positions]


def _messages_to(owners: Iterable[str], content: AnyContent) -> tuple[tuple[str, AnyContent], ...]:
    return tuple((owner, content) for owner in owners)


def _majority_offers(offers: Mapping[str, Statement]) -> dict[str, Statement]:
    """Return the offers made at the most common model."""
    points = {owner: decode_body(offer, Offer).point for owner, offer in offers.items()}
    most_common = max(sorted(set(points.values())), key=list(points.values()).count, default=b"")
    return {owner: offer for owner, offer in offers.items() if points[owner] == most_common}
