"""Messages of the secure-sum protocol, all of which are public."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import DecodeError, Meta, Struct, msgpack

from sottovoce.errors import MessageRefused
from sottovoce.privacy.secure_sum.opening import Opening
from sottovoce.privacy.secure_sum.proofs import Proof
from sottovoce.privacy.secure_sum.statements import MAX_MEMBERS, Digest, Places, Slot, Statement, Statements
from sottovoce.privacy.secure_sum.steps import Leaves, Paths, Revealed, SealedShares

_NUMBER_BYTES = 8


class Content(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag=True):
    """Base class for message contents."""


class Offered(Content, frozen=True):
    """A device's offer to take part, sent to a leader."""

    offer: Statement


class RosterProposal(Content, frozen=True, tag="Called"):
    """The leader's roster of participating devices, ordered by owner."""

    roster: Statements


class Shared(Content, frozen=True):
    """A member's sealed shares for each roster member and its signed commitment to them, sent to the leader."""

    sealed: SealedShares
    leaves: Leaves
    statement: Statement


class Agreed(Content, frozen=True):
    """The leader's list of members that dealt shares to all others, with the signed round digest."""

    members: Places
    sealed: SealedShares
    paths: Paths
    deals: Statements
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
    readies: Statements


class Over(Content, frozen=True):
    """The leader's notice that it abandons a roster before any member's privacy budget has been charged."""

    roster: Digest


class Given(Content, frozen=True):
    """A member's masked vector and its signed digest, sent to the leader."""

    vector: bytes
    statement: Statement


class Survived(Content, frozen=True):
    """The leader's list of members whose vectors have arrived."""

    statement: Statement


class SurvivorAck(Content, frozen=True, tag="Stood"):
    """A member's acknowledgement of the list of members whose vectors have arrived, sent to the leader."""

    statement: Statement
    named: Statement


class Quorum(Content, frozen=True):
    """Signed acknowledgements from enough members, sent by the leader."""

    round: Digest
    stands: Statements


class SharesRevealed(Content, frozen=True, tag="Told"):
    """The shares that a member reveals to open the sum and their signed digest, sent to the leader."""

    revealed: Revealed
    statement: Statement


class Result(Content, frozen=True):
    """A sum's opening, with which any device that has the masked vectors can verify and compute the sum."""

    opening: Opening


class Want(Content, frozen=True):
    """A request for the given members' masked vectors, sent to a device that opened the round."""

    round: Digest
    places: Places


class Vectors(Content, frozen=True):
    """Masked vectors, each with its owner's signed digest."""

    round: Digest
    given: Annotated[tuple[Given, ...], Meta(max_length=MAX_MEMBERS)]


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


class Seek(Content, frozen=True):
    """A request for all sums after the given number, sent to any device that knows them."""

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
