"""Statements that cell members sign, and the digests by which they agree on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Annotated, TypeVar

from msgspec import DecodeError, Meta, Struct, msgpack

from sottovoce.errors import MessageRefused
from sottovoce.fleet.framing import frame_fields
from sottovoce.privacy.secure_sum.neighbourhoods import Neighbourhoods

KEY_BYTES = 32
MAX_MEMBERS = 1024

Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
Slot = Annotated[int, Meta(ge=0, le=2**53)]
Place = Annotated[int, Meta(ge=0, lt=MAX_MEMBERS)]
Places = Annotated[tuple[Place, ...], Meta(max_length=MAX_MEMBERS)]
SignatureList = Annotated[tuple[Annotated[bytes, Meta(max_length=128)], ...], Meta(max_length=MAX_MEMBERS)]

_STATEMENT = b"sottovoce/secure-sum/statement/v1"


class Offer(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="offer"):
    """A device's offer to take part in one sum; it is valid for a single roster because its keys are used only once.

    Attributes:
        slot: number of the sum within the task.
        point: SHA-256 of the point for the sum, float64, little-endian; of the empty string if there is no point.
        mask_key: X25519 public key for pair masks.
        share_key: X25519 public key for sealing shares.
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
        roster: roster digest.
        size: number of members in the roster.
        offer: SHA-256 of the member's offer in the roster.
        root: commitment to all shares and sealed shares; see sottovoce.privacy.secure_sum.share_tree.
    """

    roster: Digest
    size: Annotated[int, Meta(ge=1, le=MAX_MEMBERS)]
    offer: Digest
    root: Digest


class Lead(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="lead"):
    """Statement in which a leader proposes one round for a roster.

    Attributes:
        roster: roster digest.
        round: see `round_digest`.
    """

    roster: Digest
    round: Digest


class Ready(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="ready"):
    """Statement that a member's shares match the signed roots, and that it masks its vector only for this round.

    Attributes:
        roster: roster digest.
        round: see `round_digest`.
    """

    roster: Digest
    round: Digest


class Masked(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="masked"):
    """Statement that a member has sent a masked vector with this digest.

    Attributes:
        round: see `round_digest`.
        vector: SHA-256 of the masked vector.
    """

    round: Digest
    vector: Digest


class SurvivorProposal(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="named"):
    """Statement in which a leader lists the survivors of a round.

    Attributes:
        round: see `round_digest`.
        survivors: roster indices, ascending.
        vectors: see `vectors_digest`.
    """

    round: Digest
    survivors: Places
    vectors: Digest


class SurvivorConfirmation(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="stand"):
    """Statement that a member confirms these survivors and vectors, and will confirm no others in this round.

    Attributes:
        round: see `round_digest`.
        survivors: roster indices, ascending.
        vectors: see `vectors_digest`.
    """

    round: Digest
    survivors: Places
    vectors: Digest


class RevealCommitment(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="shown"):
    """Statement that commits a member to the shares of others' secrets that it reveals.

    Attributes:
        round: see `round_digest`.
        place: the member's roster index.
        revealed: SHA-256 of the encoded shares.
    """

    round: Digest
    place: Place
    revealed: Digest


class Accusation(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="doubt"):
    """Statement that accuses another device of cheating.

    Attributes:
        accused: node id of the accused device.
        why: description of how it cheated.
    """

    accused: Annotated[str, Meta(max_length=64)]
    why: Annotated[str, Meta(max_length=80)]


class ResultCommitment(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag="knows"):
    """Statement that commits a device to the result that it holds after `slot` sums.

    Attributes:
        slot: number of sums.
        members: number of devices in the last sum.
        numerator: SHA-256 of the value.
    """

    slot: Slot
    members: Annotated[int, Meta(ge=1, le=MAX_MEMBERS)]
    numerator: Digest


Body = (
    Offer
    | Deal
    | Lead
    | Ready
    | Masked
    | SurvivorProposal
    | SurvivorConfirmation
    | RevealCommitment
    | Accusation
    | ResultCommitment
)
B = TypeVar(
    "B",
    Offer,
    Deal,
    Lead,
    Ready,
    Masked,
    SurvivorProposal,
    SurvivorConfirmation,
    RevealCommitment,
    Accusation,
    ResultCommitment,
)
_BODIES: msgpack.Decoder[Body] = msgpack.Decoder(Body)


@dataclass(frozen=True, slots=True)
class Statement:
    """A body signed by its owner; see sottovoce.learning.learners.Signed.

    Attributes:
        owner: the owner's node id.
        body: encoded body, of any kind in `Body`.
        credential: the owner's certificate, DER; empty if it is already in the roster.
        signature: the owner's signature.
    """

    owner: Annotated[str, Meta(max_length=64)]
    body: Annotated[bytes, Meta(max_length=8192)]
    credential: Annotated[bytes, Meta(max_length=4096)] = b""
    signature: Annotated[bytes, Meta(max_length=128)] = b""

    def signed_bytes(self, fleet: str, task: bytes) -> bytes:
        """See Signed.signed_bytes."""
        return frame_fields(_STATEMENT, (fleet.encode(), task, self.owner.encode(), self.body))


Statements = Annotated[tuple[Statement, ...], Meta(max_length=MAX_MEMBERS)]


def body_bytes(body: Body) -> bytes:
    """Encode a body in its canonical form, which its owner signs."""
    return msgpack.encode(body)


def decode_any_body(statement: Statement) -> Body:
    """Return the content of a statement of any kind.

    Raises:
        MessageRefused: for `malformed`, if the body does not belong to this protocol or is not in canonical form.
    """
    try:
        body = _BODIES.decode(statement.body)
    except (DecodeError, UnicodeError) as error:
        raise MessageRefused(
            "malformed", "a cell member signed data that is not a statement of this protocol"
        ) from error
    if msgpack.encode(body) != statement.body:
        raise MessageRefused("malformed", "a cell member signed a statement that is not in canonical form")
    return body


def decode_body(statement: Statement, kind: type[B]) -> B:
    """Return the content of a statement.

    Raises:
        MessageRefused: for `malformed`, if the body is of another kind or is not in canonical form.
    """
    body = decode_any_body(statement)
    if not isinstance(body, kind):
        raise MessageRefused("malformed", "a cell member signed an unexpected kind of statement")
    return body


@dataclass(frozen=True)
class Roster:
    """The members that take part in a sum, ordered by node id.

    Attributes:
        statements: signed offers.
        offers: the decoded offers.
    """

    statements: tuple[Statement, ...]
    offers: tuple[Offer, ...]

    def __len__(self) -> int:
        return len(self.statements)

    @cached_property
    def digest(self) -> bytes:
        """Return the 32-byte digest that identifies the offers and their owners."""
        fields = (field for statement in self.statements for field in (statement.owner.encode(), statement.body))
        return sha256(frame_fields(b"sottovoce/secure-sum/roster/v1", fields)).digest()

    @cached_property
    def owners(self) -> tuple[str, ...]:
        """Return the members' node ids."""
        return tuple(statement.owner for statement in self.statements)


def roster_from_offers(statements: Sequence[Statement]) -> Roster:
    """Build a roster and check its form, but not its signatures.

    Raises:
        MessageRefused: for `malformed`, if the statements are not a roster or their offers are not for the same sum.
    """
    offers = tuple(decode_body(statement, Offer) for statement in statements)
    owners = [statement.owner for statement in statements]
    if len(owners) > MAX_MEMBERS or owners != sorted(set(owners)):
        raise MessageRefused("malformed", "a roster is too long, unordered, or lists a device twice")
    if len({(offer.slot, offer.point) for offer in offers}) != 1:
        raise MessageRefused("malformed", "a roster's offers are not all for the same sum and the same model")
    return Roster(tuple(statements), offers)


class Signatures(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Roster members' signatures on statements whose bodies the recipient derives itself.

    Attributes:
        places: the signers' roster indices.
        signatures: their signatures, in the same order.
    """

    places: Places
    signatures: SignatureList


def signatures_of(statements: Mapping[int, Statement]) -> Signatures:
    """Return the signatures of members' statements, given by roster index."""
    places = tuple(sorted(statements))
    return Signatures(places, tuple(statements[place].signature for place in places))


def restore_statements(roster: Roster, signatures: Signatures, bodies: Sequence[bytes]) -> tuple[Statement, ...]:
    """Return the statements without certificates that members signed, given their bodies in the signers' order.

    Raises:
        MessageRefused: for `malformed`, if there is not one signature and one body for each place in the roster.
    """
    places = signatures.places
    if not len(places) == len(signatures.signatures) == len(bodies) or any(place >= len(roster) for place in places):
        raise MessageRefused("malformed", "signatures of cell members do not fit the roster")
    return tuple(
        Statement(roster.owners[place], body, signature=signature)
        for place, body, signature in zip(places, bodies, signatures.signatures, strict=True)
    )


def round_digest(graph: Neighbourhoods, members: Sequence[int], roots: Sequence[bytes]) -> bytes:
    """Return h, the digest of the roster, members and roots, on which all members must agree before masking.

    Args:
        graph: the roster's neighbourhoods.
        members: roster indices of the members that dealt shares to all their neighbours.
        roots: these members' commitments to their shares, in the same order.
    """
    indices = b"".join(index.to_bytes(2, "big") for index in members)
    if graph.sparse is None:
        return sha256(frame_fields(b"sottovoce/secure-sum/round/v1", (graph.roster, indices, *roots))).digest()
    sizes = b"".join(size.to_bytes(2, "big") for size in (graph.size, graph.sparse.neighbours, graph.sparse.threshold))
    fields = (graph.roster, sizes, indices, *roots)
    return sha256(frame_fields(b"sottovoce/secure-sum/sparse-round/v1", fields)).digest()


def vectors_digest(vectors: Sequence[bytes]) -> bytes:
    """Return the digest of the survivors' masked vectors, which determines the sum.

    Args:
        vectors: SHA-256 of each survivor's masked vector, in roster order.
    """
    return sha256(frame_fields(b"sottovoce/secure-sum/vectors/v1", vectors)).digest()
