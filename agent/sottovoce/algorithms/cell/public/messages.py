"""Messages of the secure-sum protocol, all of which are public."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import DecodeError, Meta, Struct, msgpack

from sottovoce.errors import MessageRefused
from sottovoce.secure_sum.opening import Opening
from sottovoce.secure_sum.proofs import Proof
from sottovoce.secure_sum.statements import MAX_MEMBERS, Digest, Places, Slot, Statement, Statements
from sottovoce.secure_sum.steps import Leaves, Paths, Revealed, SealedShares

_NUMBER_BYTES = 8


class Content(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag=True):
    """Base class for message contents."""


class Offered(Content, frozen=True):
    """Message with the sender's offer to take part, for a leader."""

    offer: Statement


class RosterProposal(Content, frozen=True, tag="Called"):
    """Message with the participating devices, ordered by owner, from the leader."""

    roster: Statements


class Shared(Content, frozen=True):
    """Message with sealed shares for each roster member and a signed commitment to them, for the leader."""

    sealed: SealedShares
    leaves: Leaves
    statement: Statement


class Agreed(Content, frozen=True):
    """Message with the members that dealt shares to all others and the signed round digest, from the leader."""

    members: Places
    sealed: SealedShares
    paths: Paths
    deals: Statements
    statement: Statement


class Readied(Content, frozen=True):
    """Message with the sender's confirmation that it is ready for the round that the leader signed."""

    statement: Statement
    lead: Statement


class Unready(Content, frozen=True):
    """Message with the members whose shares do not match their signed commitments, for the leader."""

    roster: Digest
    dealers: Places


class Go(Content, frozen=True):
    """Message with enough members' confirmations to start the round, from the leader."""

    round: Digest
    readies: Statements


class Over(Content, frozen=True):
    """Message with which the leader abandons a roster before any member's privacy budget was charged."""

    roster: Digest


class Given(Content, frozen=True):
    """Message with a masked vector and its signed digest, for the leader."""

    vector: bytes
    statement: Statement


class Survived(Content, frozen=True):
    """Message with the members whose vectors have arrived, from the leader."""

    statement: Statement


class SurvivorAck(Content, frozen=True, tag="Stood"):
    """Message with the sender's acknowledgement of the members whose vectors have arrived, for the leader."""

    statement: Statement
    named: Statement


class Quorum(Content, frozen=True):
    """Message with signed acknowledgements from enough members, from the leader."""

    round: Digest
    stands: Statements


class SharesRevealed(Content, frozen=True, tag="Told"):
    """Message with the shares that open the sum and their signed digest, for the leader."""

    revealed: Revealed
    statement: Statement


class Result(Content, frozen=True):
    """Message with the opening of a sum, which lets any device with the masked vectors verify and compute the sum."""

    opening: Opening


class Want(Content, frozen=True):
    """Message with a request for these members' masked vectors, for a device that opened this round."""

    round: Digest
    places: Places


class Vectors(Content, frozen=True):
    """Message with masked vectors, each with its owner's signed digest."""

    round: Digest
    given: Annotated[tuple[Given, ...], Meta(max_length=MAX_MEMBERS)]


class Known(Content, frozen=True):
    """Message with the sender's signed sum, little-endian int64[P] in units of 2^-40, for a device that lags behind."""

    statement: Statement
    numerator: bytes


class Exposed(Content, frozen=True):
    """Message with the proof that a member lied, for all devices."""

    proof: Proof


class Doubted(Content, frozen=True):
    """Message with the sender's signed accusation against another device, for all devices."""

    statement: Statement


class Seek(Content, frozen=True):
    """Message with a request for all sums after this number, for any device that knows them."""

    slot: Slot


ToLeader = Offered | Shared | Readied | Unready | Given | SurvivorAck | SharesRevealed
FromLeader = RosterProposal | Agreed | Go | Survived | Quorum | Over
AnyContent = ToLeader | FromLeader | Result | Want | Vectors | Known | Seek | Exposed | Doubted
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

    kind: ClassVar[str] = "secure-sum/2"

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
