"""The leader of a round: it gathers, passes on and opens. It has no privileges, and everything it says is checked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sottovoce.algorithms.cell.public.knowledge import OpenedRound, check_vector
from sottovoce.algorithms.cell.public.messages import (
    Agreed,
    Called,
    Given,
    Offered,
    Quorum,
    Result,
    Said,
    Shared,
    Stood,
    Survived,
    Told,
)
from sottovoce.algorithms.cell.public.state import Leading
from sottovoce.cell import Cell
from sottovoce.errors import MessageRefused
from sottovoce.learners.published import Provenance
from sottovoce.secure_sum.masks import check_keys
from sottovoce.secure_sum.opening import Opening, Verified, recovered
from sottovoce.secure_sum.statements import (
    Offer,
    Roster,
    Stand,
    Statement,
    body_of,
    bundle_digest,
    roster_of,
    round_digest,
)
from sottovoce.secure_sum.steps import Mask

_GATHERING_BEATS = 12
_PATIENCE_BEATS = 8


@dataclass(frozen=True, slots=True)
class Led:
    """What comes of something that a leader has heard.

    Attributes:
        leading: what it has now; None when the round is over.
        said: to whom, what.
        opened: the sum, when it is open.
        cheated: owners of shares that were none.
    """

    leading: Leading | None
    said: tuple[tuple[str, Said], ...] = ()
    opened: OpenedRound | None = None
    cheated: tuple[str, ...] = ()


class Leader:
    """Leads rounds.

    Args:
        cell: the rule.
        size: numbers of a vector.
        width: bytes of a number, in a roster of so many.
        provenance: checks who signed.
    """

    def __init__(self, cell: Cell, size: int, width: Callable[[int], int], provenance: Provenance) -> None:
        self._cell, self._size, self._provenance = cell, size, provenance
        self._width = width

    def hear(self, leading: Leading | None, sender: str, said: Said, beat: int) -> Led:
        """A member has said something.

        Raises:
            MessageRefused: it does not fit; nothing changed.
        """
        if isinstance(said, Offered):
            slot = body_of(said.offer, Offer).slot
            return Led(self._offered(leading or Leading(slot, "offers", beat), sender, said.offer))
        if leading is None or leading.roster is None or sender not in leading.roster.owners:
            return Led(leading)
        roster, place = leading.roster, leading.roster.owners.index(sender)
        match said:
            case Shared(digest, sealed) if leading.stage == "shares" and digest == roster.digest:
                if len(sealed) == len(roster):
                    leading = replace(leading, sealed={**leading.sealed, place: sealed})
            case Given(_, statement) if leading.stage == "vectors" and place in leading.members:
                check_vector(said, leading.round, self._size * self._width(len(roster)))
                self._check(roster, place, statement)
                leading = replace(leading, vectors={**leading.vectors, place: said})
            case Stood(statement) if leading.deputy and place in leading.members:
                self._check(roster, place, statement)
                if (stand := body_of(statement, Stand)).round == leading.round:
                    leading = replace(leading, named=stand)
            case Stood(statement) if leading.stage == "stands" and place in leading.survivors:
                self._check(roster, place, statement)
                if body_of(statement, Stand) == Stand(leading.round, leading.survivors):
                    leading = replace(leading, stands={**leading.stands, place: statement})
            case Told(digest, revealed) if leading.stage == "reveals" and digest == leading.round:
                gone = len(leading.members) - len(leading.survivors)
                if len(revealed.seeds) == len(leading.survivors) and len(revealed.mask_keys) == gone:
                    leading = replace(leading, revealed={**leading.revealed, place: revealed})
        return Led(leading)

    def go_on(self, leading: Leading, expected: frozenset[str], beat: int) -> Led:
        """To the next stage, if all that is waited for is there, or enough of it after a while.

        What members have said cannot be made to fail here: it was checked when it came. If it does, the round is over.
        """
        try:
            return self._gone_on(leading, expected, beat)
        except MessageRefused:
            return Led(None)

    def _gone_on(self, leading: Leading, expected: frozenset[str], beat: int) -> Led:
        if leading.deputy:
            return Led(leading)
        late = beat - leading.since >= (_GATHERING_BEATS if leading.stage == "offers" else _PATIENCE_BEATS)
        match leading.stage:
            case "offers":
                return self._call(leading, expected, beat, late=late)
            case "shares":
                return self._agree(leading, beat, late=late)
            case "vectors":
                return self._survive(leading, beat, late=late)
            case "stands":
                return self._stood(leading, beat, late=late)
            case _:
                return self._open(leading, late=late)

    @staticmethod
    def deputy(roster: Roster, said: Mask, beat: int) -> Leading:
        """What a deputy has, which is sent what the leader is, from here on."""
        h = round_digest(roster, said.members, said.digests)
        slot = roster.offers[0].slot
        return Leading(
            slot, "vectors", beat, roster=roster, members=said.members, digests=said.digests, round=h, deputy=True
        )

    @staticmethod
    def take_over(leading: Leading, stand: Stand | None, beat: int) -> Led:
        """A deputy goes on, with the survivors for whom it or others stand; nothing comes of it where it cannot."""
        stand = stand or leading.named
        leading = replace(leading, deputy=False, since=beat)
        if stand is None:
            return Led(leading)
        if not leading.vectors.keys() >= {*stand.survivors}:
            return Led(None)
        vectors = {place: leading.vectors[place] for place in stand.survivors}
        leading = replace(leading, stage="stands", vectors=vectors, survivors=stand.survivors)
        return Led(leading, _to(_those(leading, stand.survivors), Survived(stand.round, stand.survivors)))

    def _offered(self, leading: Leading, sender: str, offer: Statement) -> Leading:
        if leading.stage != "offers":
            return leading
        if offer.owner != sender:
            raise MessageRefused("cell", "a device hands in another's offer")
        found = body_of(offer, Offer)
        check_keys(found.mask_key, found.share_key)
        self._provenance.verify(offer)
        return replace(leading, offers={**leading.offers, sender: offer})

    def _check(self, roster: Roster, place: int, statement: Statement) -> None:
        known = roster.statements[place]
        if statement.owner != known.owner:
            raise MessageRefused("cell", "a device hands in another's statement")
        self._provenance.verify(replace(statement, credential=known.credential))

    def _call(self, leading: Leading, expected: frozenset[str], beat: int, *, late: bool) -> Led:
        complete = len(leading.offers) >= self._cell.most or expected <= leading.offers.keys()
        offers = _at_one_point(leading.offers)
        if not late and not complete:
            return Led(leading)
        if len(offers) < self._cell.least:
            return Led(None if late else leading)
        roster = roster_of([offers[owner] for owner in sorted(offers)[: self._cell.most]])
        called = Called(roster.statements)
        return Led(Leading(leading.slot, "shares", beat, roster=roster), _to(roster.owners, called))

    def _agree(self, leading: Leading, beat: int, *, late: bool) -> Led:
        roster = _roster(leading)
        members = tuple(sorted(leading.sealed))
        if len(members) < len(roster) and not late:
            return Led(leading)
        if len(members) < self._cell.opens_at(len(roster)):
            return Led(None)
        digests = tuple(bundle_digest(leading.sealed[member]) for member in members)
        said = tuple(
            (
                roster.owners[member],
                Agreed(
                    roster.digest, Mask(members, tuple(leading.sealed[other][member] for other in members), digests)
                ),
            )
            for member in members
        )
        h = round_digest(roster, members, digests)
        leading = replace(leading, stage="vectors", since=beat, members=members, digests=digests, round=h, sealed={})
        return Led(leading, said)

    def _survive(self, leading: Leading, beat: int, *, late: bool) -> Led:
        survivors = tuple(sorted(leading.vectors))
        if len(survivors) < len(leading.members) and not late:
            return Led(leading)
        if len(survivors) < self._cell.opens_at(len(_roster(leading))):
            return Led(None)
        said = _to(_those(leading, survivors), Survived(leading.round, survivors))
        return Led(replace(leading, stage="stands", since=beat, survivors=survivors), said)

    def _stood(self, leading: Leading, beat: int, *, late: bool) -> Led:
        needed = self._cell.opens_at(len(_roster(leading)))
        if len(leading.stands) < needed:
            return Led(None if late else leading)
        chosen = sorted(leading.stands)[:needed]
        said = Quorum(leading.round, tuple(leading.stands[place] for place in chosen))
        return Led(replace(leading, stage="reveals", since=beat), _to(_those(leading, leading.survivors), said))

    def _open(self, leading: Leading, *, late: bool) -> Led:
        roster = _roster(leading)
        needed = self._cell.opens_at(len(roster))
        if len(leading.revealed) < needed:
            return Led(None if late else leading)
        chosen = {place: leading.revealed[place] for place in sorted(leading.revealed)[:needed]}
        found = recovered(roster, leading.members, leading.survivors, chosen)
        if found.cheated:
            return Led(None, cheated=tuple(roster.owners[place] for place in found.cheated))
        stands = tuple(leading.stands[place] for place in sorted(leading.stands)[:needed])
        opening = Opening(roster.statements, leading.members, leading.digests, stands, found.seeds, found.mask_keys)
        vectors = {place: leading.vectors[place] for place in leading.survivors}
        opened = OpenedRound(Verified(opening, roster, leading.round, leading.survivors), vectors)
        return Led(None, _to(_those(leading, leading.members), Result(opening)), opened)


def _roster(leading: Leading) -> Roster:
    if leading.roster is None:
        raise MessageRefused("cell", "this device leads no round")
    return leading.roster


def _those(leading: Leading, places: Sequence[int]) -> list[str]:
    owners = _roster(leading).owners
    return [owners[place] for place in places]


def _to(owners: Iterable[str], said: Said) -> tuple[tuple[str, Said], ...]:
    return tuple((owner, said) for owner in owners)


def _at_one_point(offers: Mapping[str, Statement]) -> dict[str, Statement]:
    """Those at the model at which most are."""
    points = {owner: body_of(offer, Offer).point for owner, offer in offers.items()}
    most = max(sorted(set(points.values())), key=list(points.values()).count, default=b"")
    return {owner: offer for owner, offer in offers.items() if points[owner] == most}
