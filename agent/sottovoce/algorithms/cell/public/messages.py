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
    """Tells a leader that the sender offers to take part."""

    offer: Statement


class RosterProposal(Content, frozen=True, tag="Called"):
    """Lists the participating devices, ordered by owner. Sent by the leader."""

    roster: Statements


class Shared(Content, frozen=True):
    """Delivers sealed shares for each roster member, with a signed commitment to them, to the leader."""

    sealed: SealedShares
    leaves: Leaves
    said: Statement


class Agreed(Content, frozen=True):
    """Lists the members that dealt shares to all others, with the signed round digest. Sent by the leader."""

    members: Places
    sealed: SealedShares
    paths: Paths
    deals: Statements
    said: Statement


class Readied(Content, frozen=True):
    """Tells the leader and its deputies that this device is ready for the round that the leader signed."""

    said: Statement
    lead: Statement


class Unready(Content, frozen=True):
    """Tells the leader that the shares from these members do not match their signed commitments."""

    roster: Digest
    dealers: Places


class Go(Content, frozen=True):
    """Starts the round, because enough members are ready for it. Sent by the leader."""

    round: Digest
    readies: Statements


class Over(Content, frozen=True):
    """Abandons a roster before any member was charged. Sent by the leader."""

    roster: Digest


class Given(Content, frozen=True):
    """Delivers a masked vector and its signed digest to the leader."""

    vector: bytes
    said: Statement


class Survived(Content, frozen=True):
    """Lists the members whose vectors have arrived. Sent by the leader."""

    said: Statement


class SurvivorAck(Content, frozen=True, tag="Stood"):
    """Acknowledges to the leader the survivors listed in its statement."""

    said: Statement
    named: Statement


class Quorum(Content, frozen=True):
    """Passes on signed acknowledgements from enough members. Sent by the leader."""

    round: Digest
    stands: Statements


class SharesRevealed(Content, frozen=True, tag="Told"):
    """Delivers the shares that open the sum, and their signed digest, to the leader."""

    revealed: Revealed
    said: Statement


class Result(Content, frozen=True):
    """Announces that a sum is open. Any device that has the masked vectors can verify and compute the sum."""

    opening: Opening


class Want(Content, frozen=True):
    """Asks a device that opened this round for the masked vectors of these members."""

    round: Digest
    places: Places


class Vectors(Content, frozen=True):
    """Delivers masked vectors, each with its owner's signed digest."""

    round: Digest
    given: Annotated[tuple[Given, ...], Meta(max_length=MAX_MEMBERS)]


class Known(Content, frozen=True):
    """Delivers the sender's signed sum to a device that lags behind, int64[P] in units of 2^-40, little-endian."""

    said: Statement
    numerator: bytes


class Exposed(Content, frozen=True):
    """Sends all devices the proof that a member lied."""

    proof: Proof


class Doubted(Content, frozen=True):
    """Sends all devices the sender's signed accusation against another device."""

    said: Statement


class Seek(Content, frozen=True):
    """Asks any device that knows more sums than this number for the later ones."""

    slot: Slot


ToLeader = Offered | Shared | Readied | Unready | Given | SurvivorAck | SharesRevealed
FromLeader = RosterProposal | Agreed | Go | Survived | Quorum | Over
AnyContent = ToLeader | FromLeader | Result | Want | Vectors | Known | Seek | Exposed | Doubted
_CONTENT_DECODER: msgpack.Decoder[AnyContent] = msgpack.Decoder(AnyContent)


@dataclass(frozen=True, slots=True)
class CellMessage:
    """A secure-sum message.

    Attributes:
        said: the message content.
        simulated: whether the message depends on a seeded noise stream; see Message.simulated.
    """

    said: AnyContent
    simulated: bool = False

    kind: ClassVar[str] = "secure-sum/2"

    @property
    def encoded(self) -> bytes:
        """The content, encoded for the wire."""
        return msgpack.encode(self.said)

    @property
    def numbers(self) -> int:
        """The encoded content's size in 8-byte values, rounded up; see Message.numbers."""
        return -(-len(self.encoded) // _NUMBER_BYTES)

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"said": type(self.said).__name__.lower(), "content": self.encoded.hex()}


def content_of(raw: bytes) -> AnyContent:
    """Decode message content.

    Raises:
        MessageRefused: with the reason `malformed`, if the bytes are not valid content.
    """
    try:
        return _CONTENT_DECODER.decode(raw)
    except (DecodeError, UnicodeError) as error:
        raise MessageRefused("malformed", "the payload is not a secure-sum message") from error
