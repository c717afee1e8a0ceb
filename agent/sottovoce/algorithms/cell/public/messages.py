"""What devices say to one another in the course of a secure sum; all of it may be read by everybody."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import DecodeError, Meta, Struct, msgpack

from sottovoce.errors import MessageRefused
from sottovoce.secure_sum.opening import Opening
from sottovoce.secure_sum.statements import MOST_MEMBERS, Digest, Places, Slot, Statement, Statements
from sottovoce.secure_sum.steps import Mask, Revealed, SealedShares

_NUMBER_BYTES = 8


class Content(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag=True):
    """Of a message."""


class Offered(Content, frozen=True):
    """To a leader: this device takes part."""

    offer: Statement


class Called(Content, frozen=True):
    """From a leader: these take part, ordered by owner."""

    roster: Statements


class Shared(Content, frozen=True):
    """To the leader: sealed shares for each member of this roster."""

    roster: Digest
    sealed: SealedShares


class Agreed(Content, frozen=True):
    """From the leader: these members of this roster gave shares to all."""

    roster: Digest
    mask: Mask


class Given(Content, frozen=True):
    """To the leader: a masked vector; its digest, signed."""

    vector: bytes
    said: Statement


class Survived(Content, frozen=True):
    """From the leader: the vectors of these arrived."""

    round: Digest
    survivors: Places


class Stood(Content, frozen=True):
    """To the leader: this device stands for these survivors."""

    said: Statement


class Quorum(Content, frozen=True):
    """From the leader: so many stand for the same survivors."""

    round: Digest
    stands: Statements


class Told(Content, frozen=True):
    """To the leader: what opens the sum."""

    round: Digest
    revealed: Revealed


class Result(Content, frozen=True):
    """A sum is open; whoever has the masked vectors can verify and compute it."""

    opening: Opening


class Want(Content, frozen=True):
    """To a device that has opened this round: the masked vectors of these members are asked for."""

    round: Digest
    places: Places


class Vectors(Content, frozen=True):
    """Some of them, as they were signed."""

    round: Digest
    given: Annotated[tuple[Given, ...], Meta(max_length=MOST_MEMBERS)]


class Known(Content, frozen=True):
    """To a device that is behind: what the sender knows, int64[P] in units of 2^-40, little-endian, and signs."""

    said: Statement
    numerator: bytes


class Seek(Content, frozen=True):
    """Whoever has come farther than so many sums is asked for what it knows."""

    slot: Slot


Asked = Offered | Shared | Given | Stood | Told | Want | Seek
Said = Asked | Called | Agreed | Survived | Quorum | Result | Vectors | Known
_SAID: msgpack.Decoder[Said] = msgpack.Decoder(Said)


@dataclass(frozen=True, slots=True)
class CellMessage:
    """One message.

    Attributes:
        said: its content.
        simulated: see Message.simulated.
    """

    said: Said
    simulated: bool = False

    kind: ClassVar[str] = "secure-sum/2"

    @property
    def encoded(self) -> bytes:
        """Its content, for its way."""
        return msgpack.encode(self.said)

    @property
    def numbers(self) -> int:
        """See Message.numbers; everything in it is counted."""
        return -(-len(self.encoded) // _NUMBER_BYTES)

    def traced(self) -> dict[str, Any]:
        """See Message.traced."""
        return {"said": type(self.said).__name__.lower(), "content": self.encoded.hex()}


def content_of(raw: bytes) -> Said:
    """The content of these bytes.

    Raises:
        MessageRefused: for `malformed`: they are none.
    """
    try:
        return _SAID.decode(raw)
    except (DecodeError, UnicodeError) as error:
        raise MessageRefused("malformed", "not a message of a secure sum") from error
