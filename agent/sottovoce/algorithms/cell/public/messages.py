"""Messages of the secure-sum protocol, all of which are public."""

import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar

from msgspec import DecodeError, Meta, Struct, msgpack

from sottovoce.algorithms.cell.public.proofs import Proof
from sottovoce.errors import MessageRefused
from sottovoce.privacy.secure_sum.opening import Opening
from sottovoce.privacy.secure_sum.statements import (
    MAX_MEMBERS,
    Digest,
    Places,
    SignatureList,
    Signatures,
    Slot,
    Statement,
    Statements,
)
from sottovoce.privacy.secure_sum.steps import Leaves, Paths, Revealed, Roots, SealedShares

_NUMBER_BYTES = 8
_MAX_ROSTER_BYTES = 2**21
_ROSTER_DECODER: msgpack.Decoder[Statements] = msgpack.Decoder(Statements)

Attempt = Annotated[int, Meta(ge=0, le=2**53)]


class Content(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag=True):
    """Base class for message contents."""


class Offered(Content, frozen=True):
    """A device's offer to take part, sent to the leader of an attempt, and repeated while the device waits."""

    offer: Statement
    attempt: Attempt


class RosterProposal(Content, frozen=True, tag="Called"):
    """The leader's roster of participating devices: their offers, ordered by owner, encoded and compressed by zlib."""

    packed: Annotated[bytes, Meta(max_length=_MAX_ROSTER_BYTES)]

    @classmethod
    def of(cls, roster: Statements) -> "RosterProposal":
        """Return the message that proposes a roster."""
        return cls(zlib.compress(msgpack.encode(roster)))

    @property
    def roster(self) -> Statements:
        """The offers; see `_unpack_roster`."""
        return _unpack_roster(self.packed)


@lru_cache(maxsize=1)  # simulated devices get the same roster, and share one copy
def _unpack_roster(packed: bytes) -> Statements:
    """Return the offers of a roster.

    Raises:
        MessageRefused: for `malformed`, if the bytes are not a packed roster, or one that is too long.
    """
    unpacker = zlib.decompressobj()
    try:
        statements = _ROSTER_DECODER.decode(unpacker.decompress(packed, _MAX_ROSTER_BYTES))
    except (zlib.error, DecodeError, UnicodeError) as error:
        raise MessageRefused("malformed", "a leader's roster cannot be read") from error
    if not unpacker.eof or unpacker.unused_data:
        raise MessageRefused("malformed", "a leader's roster is too long or is followed by other data")
    return statements


class Shared(Content, frozen=True):
    """A member's sealed shares for each of its neighbours and its signed commitment to them, sent to the leader."""

    sealed: SealedShares
    leaves: Leaves
    statement: Statement


class Agreed(Content, frozen=True):
    """The leader's list of members that dealt shares to all their neighbours, with the signed round digest.

    For each of these members, it contains the commitment and the signature on it. For each of them that is a neighbour
    of the recipient, or the recipient itself, it contains the sealed shares for the recipient, and the proof that they
    are those to which the member committed; see sottovoce.privacy.secure_sum.share_tree.
    """

    members: Places
    sealed: SealedShares
    pairs: Roots
    paths: Paths
    roots: Roots
    signatures: SignatureList
    statement: Statement


class Readied(Content, frozen=True):
    """A member's confirmation that it is ready for the round that the leader signed."""

    statement: Statement
    lead: Statement


class Unready(Content, frozen=True):
    """A member's list of dealers whose shares do not match their signed commitments, sent to the leader."""

    roster: Digest
    dealers: Places


class Go(Content, frozen=True):
    """The leader's start signal: readiness confirmations from enough members."""

    round: Digest
    readies: Signatures


class Over(Content, frozen=True):
    """The leader's notice that it abandons a roster before any member's privacy budget has been charged."""

    roster: Digest


class Given(Content, frozen=True):
    """A member's masked vector and its signed digest, sent to the leader."""

    vector: bytes
    statement: Statement


class Survived(Content, frozen=True):
    """The leader's list of members whose vectors have arrived, with the digests of these vectors that they signed."""

    statement: Statement
    vectors: Roots
    signatures: SignatureList


class SurvivorAck(Content, frozen=True, tag="Stood"):
    """A member's acknowledgement of the list of members whose vectors have arrived, sent to the leader."""

    statement: Statement
    named: Statement


class Quorum(Content, frozen=True):
    """Signed acknowledgements from enough members, sent by the leader."""

    round: Digest
    stands: Signatures


class SharesRevealed(Content, frozen=True, tag="Told"):
    """The shares that a member reveals to open the sum and their signed digest, sent to the leader."""

    revealed: Revealed
    statement: Statement


class Result(Content, frozen=True):
    """A sum's opening, with which any device that has the masked vectors can verify and compute the sum.

    A leader leaves out the roster, which the members of the round have, and sends its digest instead.
    """

    opening: Opening
    roster: Annotated[bytes, Meta(max_length=32)] = b""


class Want(Content, frozen=True):
    """A request for the given members' masked vectors, sent to a device that opened the round."""

    round: Digest
    places: Places


class Vectors(Content, frozen=True):
    """Masked vectors of these members."""

    round: Digest
    places: Places
    vectors: Annotated[tuple[bytes, ...], Meta(max_length=MAX_MEMBERS)]


class Known(Content, frozen=True):
    """The sender's signed sum, little-endian int64[P] in units of 2^-40, sent to a device that lags behind."""

    statement: Statement
    numerator: bytes


class Exposed(Content, frozen=True):
    """A proof that a member lied, sent to all devices."""

    proof: Proof


class Doubted(Content, frozen=True):
    """The sender's signed accusation against another device, sent to all devices."""

    statement: Statement


class Gathered(Content, frozen=True):
    """The number of offers that a leader has gathered, in reply to an offer; it only informs the status."""

    slot: Slot
    attempt: Attempt
    offers: Attempt


class Wish(Content, frozen=True):
    """The highest attempt at a sum for which the sender wishes, sent to all devices when it increases."""

    slot: Slot
    attempt: Attempt


class Seek(Content, frozen=True):
    """A request for all sums after the given number, sent to any device that knows them."""

    slot: Slot


ToLeader = Offered | Shared | Readied | Unready | Given | SurvivorAck | SharesRevealed
FromLeader = RosterProposal | Agreed | Go | Survived | Quorum | Over
AnyContent = ToLeader | FromLeader | Result | Want | Vectors | Known | Seek | Exposed | Doubted | Wish | Gathered
_CONTENT_DECODER: msgpack.Decoder[AnyContent] = msgpack.Decoder(AnyContent)


@dataclass(frozen=True, slots=True)
class CellMessage:
    """A secure-sum message.

    Attributes:
        content: the content.
        simulated: whether the message depends on a seeded noise stream; see Message.simulated.
    """

    content: AnyContent
    simulated: bool = False

    kind: ClassVar[str] = "secure-sum/4"

    @property
    def encoded(self) -> bytes:
        """The content, encoded for the wire."""
        return msgpack.encode(self.content)

    @property
    def value_count(self) -> int:
        """The encoded content's size in 8-byte values, rounded up; see Message.value_count."""
        return -(-len(self.encoded) // _NUMBER_BYTES)

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"type": type(self.content).__name__.lower(), "content": self.encoded.hex()}


def decode_content(raw: bytes) -> AnyContent:
    """Decode message content.

    Raises:
        MessageRefused: with the reason `malformed`, if the bytes are not valid content.
    """
    try:
        return _CONTENT_DECODER.decode(raw)
    except (DecodeError, UnicodeError) as error:
        raise MessageRefused("malformed", "the payload is not a secure-sum message") from error
