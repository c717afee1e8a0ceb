"""Statements that the members of a cell sign, and agree on by their digest."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Annotated, TypeVar

from msgspec import DecodeError, Meta, Struct, msgpack

from sottovoce.errors import MessageRefused
from sottovoce.identity.framing import framed

KEY_BYTES = 32
MAX_MEMBERS = 1024

Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
Slot = Annotated[int, Meta(ge=0, le=2**53)]
Place = Annotated[int, Meta(ge=0, lt=MAX_MEMBERS)]
Places = Annotated[tuple[Place, ...], Meta(max_length=MAX_MEMBERS)]

_STATEMENT = b"sottovoce/secure-sum/statement/v1"


class Offer(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="offer"):
    """Offer of a device to take part in one sum. Its keys are for this offer alone, so that it is good for one roster.

    Attributes:
        slot: number of the sum within the task.
        point: SHA-256 of the point at which it is taken, float64, little-endian; of nothing if there is no point.
        mask_key: X25519 key for the masks between pairs.
        share_key: X25519 key with which shares are sealed.
        commitment: commitment to the seed of the device's own mask.
    """

    slot: Slot
    point: Digest
    mask_key: Digest
    share_key: Digest
    commitment: Digest


class Deal(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="deal"):
    """Statement that a member deals shares of its secrets.

    Attributes:
        roster: its digest.
        size: members of the roster.
        offer: SHA-256 of the member's offer in it.
        root: commits to all shares; see sottovoce.secure_sum.share_tree.
    """

    roster: Digest
    size: Annotated[int, Meta(ge=1, le=MAX_MEMBERS)]
    offer: Digest
    root: Digest


class Lead(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="lead"):
    """Statement of a leader that proposes one round for a roster.

    Attributes:
        roster: its digest.
        round: see `round_digest`.
    """

    roster: Digest
    round: Digest


class Ready(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="ready"):
    """Statement that a member's shares fit their dealers' signatures, and that it masks its part only for this round.

    Attributes:
        roster: its digest.
        round: see `round_digest`.
    """

    roster: Digest
    round: Digest


class Masked(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="masked"):
    """Statement that a member has sent a masked vector with this digest.

    Attributes:
        round: see `round_digest`.
        vector: SHA-256.
    """

    round: Digest
    vector: Digest


class Named(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="named"):
    """Statement of a leader that names the survivors of a round.

    Attributes:
        round: see `round_digest`.
        survivors: places in the roster, ascending.
    """

    round: Digest
    survivors: Places


class Stand(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="stand"):
    """Statement that a member acknowledges one set of survivors, and no other set of its round.

    Attributes:
        round: see `round_digest`.
        survivors: places in the roster, ascending.
    """

    round: Digest
    survivors: Places


class Shown(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="shown"):
    """Statement that a member reveals its shares of others' secrets.

    Attributes:
        round: see `round_digest`.
        place: place of the member.
        revealed: SHA-256 of the shares, encoded.
    """

    round: Digest
    place: Place
    revealed: Digest


class Doubt(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="doubt"):
    """Statement that a device has seen another device lie.

    Attributes:
        accused: node id.
        why: description of the lie.
    """

    accused: Annotated[str, Meta(max_length=64)]
    why: Annotated[str, Meta(max_length=80)]


class Knows(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="knows"):
    """Statement of a device's knowledge after a number of sums.

    Attributes:
        slot: number of sums.
        members: number of devices in the last sum.
        numerator: SHA-256 of the value.
    """

    slot: Slot
    members: Annotated[int, Meta(ge=1, le=MAX_MEMBERS)]
    numerator: Digest


Body = Offer | Deal | Lead | Ready | Masked | Named | Stand | Shown | Doubt | Knows
B = TypeVar("B", Offer, Deal, Lead, Ready, Masked, Named, Stand, Shown, Doubt, Knows)
_BODIES: msgpack.Decoder[Body] = msgpack.Decoder(Body)


@dataclass(frozen=True, slots=True)
class Statement:
    """Body that its owner has signed; see sottovoce.learners.Signed.

    Attributes:
        owner: node id.
        body: body of any kind above.
        credential: the owner's certificate, DER; empty where the roster has it.
        signature: signature of the owner.
    """

    owner: Annotated[str, Meta(max_length=64)]
    body: Annotated[bytes, Meta(max_length=8192)]
    credential: Annotated[bytes, Meta(max_length=4096)] = b""
    signature: Annotated[bytes, Meta(max_length=128)] = b""

    def signed_bytes(self, fleet: str, task: bytes) -> bytes:
        """See Signed.signed_bytes."""
        return framed(_STATEMENT, (fleet.encode(), task, self.owner.encode(), self.body))


Statements = Annotated[tuple[Statement, ...], Meta(max_length=MAX_MEMBERS)]


def body_bytes(body: Body) -> bytes:
    """Encode a body in its one form, for its owner to sign."""
    return msgpack.encode(body)


def any_body_of(statement: Statement) -> Body:
    """Return the content of a statement of any kind.

    Raises:
        MessageRefused: for `malformed`: nothing of this protocol, or not in its one form.
    """
    try:
        body = _BODIES.decode(statement.body)
    except (DecodeError, UnicodeError) as error:
        raise MessageRefused(
            "malformed", "a member of the cell signed something that is not a statement of this protocol"
        ) from error
    if msgpack.encode(body) != statement.body:
        raise MessageRefused("malformed", "a member of the cell signed a statement that is not in its canonical form")
    return body


def body_of(statement: Statement, kind: type[B]) -> B:
    """Return the content of a statement.

    Raises:
        MessageRefused: for `malformed`: something else, or not in its one form.
    """
    body = any_body_of(statement)
    if not isinstance(body, kind):
        raise MessageRefused("malformed", "a member of the cell signed a statement other than the expected one")
    return body


@dataclass(frozen=True)
class Roster:
    """Members that take part, in order of their ids.

    Attributes:
        statements: signed offers.
        offers: the offers in these statements.
    """

    statements: tuple[Statement, ...]
    offers: tuple[Offer, ...]

    def __len__(self) -> int:
        return len(self.statements)

    @cached_property
    def digest(self) -> bytes:
        """Digest of 32 bytes, which stands for the offers and their owners."""
        fields = (field for one in self.statements for field in (one.owner.encode(), one.body))
        return sha256(framed(b"sottovoce/secure-sum/roster/v1", fields)).digest()

    @cached_property
    def owners(self) -> tuple[str, ...]:
        """Ids of the members."""
        return tuple(one.owner for one in self.statements)


def roster_of(statements: Sequence[Statement]) -> Roster:
    """Make a roster and check its form, but not its signatures.

    Raises:
        MessageRefused: for `malformed`: it is not a roster, or its offers are not for one sum.
    """
    offers = tuple(body_of(statement, Offer) for statement in statements)
    owners = [statement.owner for statement in statements]
    if len(owners) > MAX_MEMBERS or owners != sorted(set(owners)):
        raise MessageRefused("malformed", "a roster names a device twice")
    if len({(offer.slot, offer.point) for offer in offers}) != 1:
        raise MessageRefused("malformed", "a roster has offers for several sums, or at several models")
    return Roster(tuple(statements), offers)


def round_digest(roster: bytes, members: Sequence[int], roots: Sequence[bytes]) -> bytes:
    """Return h, the digest of the facts on which all members must agree before any member masks its part.

    Args:
        roster: its digest.
        members: places of those that have dealt shares to all others.
        roots: their commitments to these shares, in the same order.
    """
    places = b"".join(place.to_bytes(2, "big") for place in members)
    return sha256(framed(b"sottovoce/secure-sum/round/v1", (roster, places, *roots))).digest()
