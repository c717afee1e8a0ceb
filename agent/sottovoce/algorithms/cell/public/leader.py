"""The leader of a round relays messages and opens the sum. It has no privileges: members check all its messages."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sottovoce.algorithms.cell.public.gathering import Led
from sottovoce.algorithms.cell.public.knowledge import OpenedRound
from sottovoce.algorithms.cell.public.messages import Agreed, Go, Over, Quorum, Result, RosterProposal, Said, Survived
from sottovoce.algorithms.cell.public.state import Leading
from sottovoce.cell import Cell
from sottovoce.errors import MessageRefused
from sottovoce.learners.published import Provenance
from sottovoce.secure_sum.opening import Opening, Secrets, Verified, recover_secrets
from sottovoce.secure_sum.proofs import WorthlessShares
from sottovoce.secure_sum.share_tree import ShareTree
from sottovoce.secure_sum.statements import (
    Body,
    Deal,
    Lead,
    Named,
    Offer,
    Roster,
    Statement,
    body_bytes,
    body_of,
    roster_of,
    round_digest,
)
from sottovoce.secure_sum.steps import Revealed

_GATHERING_BEATS = 12
_PATIENCE_BEATS = 8


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

    def advance(self, leading: Leading, expected: frozenset[str], struck: frozenset[str], beat: int) -> Led:
        """Move to the next stage once all expected messages have arrived, or once enough have arrived by the timeout.

        Messages are checked on arrival. If one still fails a check here, the round ends.

        Args:
            leading: the leader's state.
            expected: the devices whose offers the leader waits for.
            struck: the devices excluded from every roster.
            beat: the current beat.
        """
        try:
            return self._advance_stage(leading, expected, struck, beat)
        except MessageRefused:
            return Led(None)

    def _advance_stage(self, leading: Leading, expected: frozenset[str], struck: frozenset[str], beat: int) -> Led:
        if leading.deputy:
            return Led(leading)
        late = beat - leading.since >= (_GATHERING_BEATS if leading.stage == "offers" else _PATIENCE_BEATS)
        match leading.stage:
            case "offers":
                return self._propose_roster(leading, expected - struck, struck, beat, late=late)
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
    def deputy(roster: Roster, said: Agreed, beat: int) -> Leading:
        """Return the state of a new deputy, which receives the same messages as the leader from now on."""
        deals = dict(zip(said.members, said.deals, strict=True))
        return Leading(
            roster.offers[0].slot,
            "vectors",
            beat,
            roster=roster,
            members=said.members,
            deals=deals,
            round=body_of(said.said, Lead).round,
            lead=said.said,
            deputy=True,
        )

    def take_over(self, leading: Leading, named: Statement | None, beat: int) -> Led:
        """Take over as a deputy, reusing any acknowledged survivors; end the round if their vectors are missing."""
        named = named or leading.named
        leading = replace(leading, deputy=False, since=beat, named=None)
        if named is None:
            return Led(
                leading, () if leading.go is None else _messages_to(_owners_at(leading, leading.members), leading.go)
            )
        survivors = body_of(named, Named).survivors
        if not leading.vectors.keys() >= {*survivors}:
            return Led(None)
        return self._announce_survivors(leading, survivors, beat)

    def _propose_roster(
        self, leading: Leading, expected: frozenset[str], struck: Collection[str], beat: int, *, late: bool
    ) -> Led:
        here = {owner: one for owner, one in leading.offers.items() if owner not in struck}
        complete = len(here) >= self._cell.most or expected <= here.keys()
        offers = _majority_offers(here)
        if not late and not complete:
            return Led(leading)
        if len(offers) < self._cell.least:
            return Led(None if late else leading)
        roster = roster_of([offers[owner] for owner in sorted(offers)[: self._cell.most]])
        called = RosterProposal(roster.statements)
        return Led(Leading(leading.slot, "shares", beat, roster=roster), _messages_to(roster.owners, called))

    def _agree(self, leading: Leading, beat: int, *, late: bool) -> Led:
        roster, dealt = _roster(leading), leading.dealt
        members = tuple(sorted(dealt))
        if len(members) < len(roster) and not late:
            return Led(leading)
        if len(members) < self._cell.opens_at(len(roster)):
            return _abort_round(roster)
        deals = {member: dealt[member].said for member in members}
        h = round_digest(roster.digest, members, [body_of(deal, Deal).root for deal in deals.values()])
        lead = self._sign(Lead(roster.digest, h))
        trees = [ShareTree(dealt[member].leaves) for member in members]
        said = tuple(
            (
                roster.owners[member],
                Agreed(
                    members,
                    tuple(dealt[other].sealed[member] for other in members),
                    tuple(tree.path(member) for tree in trees),
                    tuple(deals.values()),
                    lead,
                ),
            )
            for member in members
        )
        stage = Leading(leading.slot, "readies", beat, roster=roster, members=members, deals=deals, round=h, lead=lead)
        return Led(stage, said)

    def _begin(self, leading: Leading, beat: int, *, late: bool) -> Led:
        """Start the round once enough members are ready. No member is charged before that."""
        roster = _roster(leading)
        if leading.readies.keys() | leading.unready < {*leading.members} and not late:
            return Led(leading)
        if len(leading.readies) < self._cell.opens_at(len(roster)):
            return _abort_round(roster)
        ready = sorted(leading.readies)
        go = Go(leading.round, tuple(leading.readies[place] for place in ready))
        unready = frozenset(leading.members) - {*ready}
        leading = replace(leading, stage="vectors", since=beat, readies={}, unready=unready)
        return Led(leading, _messages_to(_owners_at(leading, ready), go))

    def _determine_survivors(self, leading: Leading, beat: int, *, late: bool) -> Led:
        survivors = tuple(sorted(leading.vectors))
        if not {*survivors} >= {*leading.members} - leading.unready and not late:
            return Led(leading)
        if len(survivors) < self._cell.opens_at(len(_roster(leading))):
            return Led(None if late else leading)
        return self._announce_survivors(leading, survivors, beat)

    def _announce_survivors(self, leading: Leading, survivors: tuple[int, ...], beat: int) -> Led:
        named = self._sign(Named(leading.round, survivors))
        vectors = {place: leading.vectors[place] for place in survivors}
        leading = replace(
            leading, stage="stands", since=beat, vectors=vectors, survivors=survivors, stands={}, named=named
        )
        return Led(leading, _messages_to(_owners_at(leading, survivors), Survived(named)))

    def _request_reveals(self, leading: Leading, beat: int, *, late: bool) -> Led:
        needed = self._cell.opens_at(len(_roster(leading)))
        if len(leading.stands) < needed:
            return Led(None if late else leading)
        said = Quorum(leading.round, tuple(leading.stands[place] for place in sorted(leading.stands)))
        return Led(
            replace(leading, stage="reveals", since=beat), _messages_to(_owners_at(leading, leading.survivors), said)
        )

    def _open(self, leading: Leading, *, late: bool) -> Led:
        roster = _roster(leading)
        needed = self._cell.opens_at(len(roster))
        if len(leading.revealed) < needed:
            return Led(None if late else leading)
        chosen = {place: leading.revealed[place] for place in sorted(leading.revealed)[:needed]}
        found = recover_secrets(roster, leading.members, leading.survivors, chosen)
        if found.cheated:
            return Led(
                None, proofs=tuple(_worthless_shares_proof(leading, roster, place, chosen) for place in found.cheated)
            )
        return self._publish_opening(leading, roster, found)

    @staticmethod
    def _publish_opening(leading: Leading, roster: Roster, found: Secrets) -> Led:
        stands = tuple(leading.stands[place] for place in sorted(leading.stands))
        opening = Opening(roster.statements, leading.members, leading.roots, stands, found.seeds, found.mask_keys)
        opened = OpenedRound(Verified(opening, roster, leading.round, leading.survivors), leading.vectors)
        return Led(None, _messages_to(roster.owners, Result(opening)), opened)

    def _sign(self, body: Body) -> Statement:
        return replace(self._provenance.signed(Statement(self._owner, body_bytes(body))), credential=b"")


def _worthless_shares_proof(
    leading: Leading, roster: Roster, dealer: int, revealed: Mapping[int, Revealed]
) -> WorthlessShares:
    """Return the proof that a member dealt shares that do not recover the secret in its offer."""
    of_mask_key = dealer not in leading.survivors
    at = leading.gone.index(dealer) if of_mask_key else leading.survivors.index(dealer)
    offer = roster.statements[dealer]
    deal = replace(leading.deals[dealer], credential=offer.credential)
    recipients = tuple(sorted(revealed))
    shares = tuple((revealed[one].mask_keys if of_mask_key else revealed[one].seeds)[at] for one in recipients)
    return WorthlessShares(offer, deal, of_mask_key, recipients, shares)


def _abort_round(roster: Roster) -> Led:
    return Led(None, _messages_to(roster.owners, Over(roster.digest)))


def _roster(leading: Leading) -> Roster:
    if leading.roster is None:
        raise MessageRefused("cell", "this device is not leading a round")
    return leading.roster


def _owners_at(leading: Leading, places: Sequence[int]) -> list[str]:
    owners = _roster(leading).owners
    return [owners[place] for place in places]


def _messages_to(owners: Iterable[str], said: Said) -> tuple[tuple[str, Said], ...]:
    return tuple((owner, said) for owner in owners)


def _majority_offers(offers: Mapping[str, Statement]) -> dict[str, Statement]:
    """Return the offers made at the most common model."""
    points = {owner: body_of(offer, Offer).point for owner, offer in offers.items()}
    most = max(sorted(set(points.values())), key=list(points.values()).count, default=b"")
    return {owner: offer for owner, offer in offers.items() if points[owner] == most}
