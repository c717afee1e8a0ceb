"""Messages of a secure sum, all of them public."""

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
    """Base class of message contents."""


class Offered(Content, frozen=True):
    """Message to a leader that the sender takes part."""

    offer: Statement


class RosterProposal(Content, frozen=True, tag="Called"):
    """Message from a leader with the devices that take part, ordered by owner."""

    roster: Statements


class Shared(Content, frozen=True):
    """Message to the leader with sealed shares for each member of a roster, and a signed commitment to them."""

    sealed: SealedShares
    leaves: Leaves
    said: Statement


class Agreed(Content, frozen=True):
    """Message from the leader with the members that dealt shares to all others, and the signed round digest."""

    members: Places
    sealed: SealedShares
    paths: Paths
    deals: Statements
    said: Statement


class Readied(Content, frozen=True):
    """Message to the leader and its deputies that this device is ready for the round that the leader signed."""

    said: Statement
    lead: Statement


class Unready(Content, frozen=True):
    """Message to the leader that the shares of these members do not match their signatures."""

    roster: Digest
    dealers: Places


class Go(Content, frozen=True):
    """Message from the leader that enough members are ready for the same round."""

    round: Digest
    readies: Statements


class Over(Content, frozen=True):
    """Message from the leader that this roster is abandoned and nothing was charged."""

    roster: Digest


class Given(Content, frozen=True):
    """Message to the leader with a masked vector and its signed digest."""

    vector: bytes
    said: Statement


class Survived(Content, frozen=True):
    """Message from the leader with the members whose vectors have arrived."""

    said: Statement


class SurvivorAck(Content, frozen=True, tag="Stood"):
    """Message to the leader that this device acknowledges the survivors in the leader's statement."""

    said: Statement
    named: Statement


class Quorum(Content, frozen=True):
    """Message from the leader with the signed acknowledgements of enough members."""

    round: Digest
    stands: Statements


class SharesRevealed(Content, frozen=True, tag="Told"):
    """Message to the leader with the shares that open the sum, and their signed digest."""

    revealed: Revealed
    said: Statement


class Result(Content, frozen=True):
    """Message that a sum is open. Any device that has the masked vectors can verify and compute the sum."""

    opening: Opening


class Want(Content, frozen=True):
    """Request to a device that has opened this round for the masked vectors of these members."""

    round: Digest
    places: Places


class Vectors(Content, frozen=True):
    """Message with masked vectors, each with its owner's signed digest."""

    round: Digest
    given: Annotated[tuple[Given, ...], Meta(max_length=MAX_MEMBERS)]


class Known(Content, frozen=True):
    """Message to a device that lags behind: the sender's signed sum, int64[P] in units of 2^-40, little-endian."""

    said: Statement
    numerator: bytes


class Exposed(Content, frozen=True):
    """Message to all devices with proof of a member's lie."""

    proof: Proof


class Doubted(Content, frozen=True):
    """Message to all devices with the sender's signed accusation of another device."""

    said: Statement


class Seek(Content, frozen=True):
    """Request for later sums to any device that knows more sums than this number."""

    slot: Slot


ToLeader = Offered | Shared | Readied | Unready | Given | SurvivorAck | SharesRevealed
FromLeader = RosterProposal | Agreed | Go | Survived | Quorum | Over
Said = ToLeader | FromLeader | Result | Want | Vectors | Known | Seek | Exposed | Doubted
_SAID: msgpack.Decoder[Said] = msgpack.Decoder(Said)


@dataclass(frozen=True, slots=True)
class CellMessage:
    """A secure-sum message.

    Attributes:
        said: content of the message.
        simulated: whether it depends on a seeded noise stream; see Message.simulated.
    """

    said: Said
    simulated: bool = False

    kind: ClassVar[str] = "secure-sum/2"

    @property
    def encoded(self) -> bytes:
        """The content, encoded for the network."""
        return msgpack.encode(self.said)

    @property
    def numbers(self) -> int:
        """Number of 8-byte values in the encoded content, rounded up; see Message.numbers."""
        return -(-len(self.encoded) // _NUMBER_BYTES)

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"said": type(self.said).__name__.lower(), "content": self.encoded.hex()}


def content_of(raw: bytes) -> Said:
    """Decode the content of a message.

    Raises:
        MessageRefused: with the reason `malformed`, if the bytes are not valid message content.
    """
    try:
        return _SAID.decode(raw)
    except (DecodeError, UnicodeError) as error:
        raise MessageRefused("malformed", "the payload is not a secure-sum message") from error
