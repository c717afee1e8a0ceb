"""What a member's vault is asked in the course of a round, and what it answers. All of it is public.

Each question goes with one answer: Begin with Offer, Join with Sealed, Mask with Vector, Survive with Stand, and Reveal
with Revealed.
"""

from typing import Annotated, TypeVar

from msgspec import DecodeError, Meta, Struct, msgpack

from sottovoce.errors import MessageRefused
from sottovoce.secure_sum.shares import SEALED_BYTES, SHARE_BYTES
from sottovoce.secure_sum.statements import MOST_MEMBERS, Digest, Masked, Offer, Places, Slot, Stand, Statements

_Sealed = Annotated[bytes, Meta(max_length=SEALED_BYTES)]
_Share = Annotated[bytes, Meta(min_length=SHARE_BYTES, max_length=SHARE_BYTES)]
SealedShares = Annotated[tuple[_Sealed, ...], Meta(max_length=MOST_MEMBERS)]
_Shares = Annotated[tuple[_Share, ...], Meta(max_length=MOST_MEMBERS)]


class Step(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag=True):
    """One of them."""


class Begin(Step, frozen=True):
    """Offer to take part in a sum that is taken at this point, float64[P], little-endian; earlier offers are void."""

    slot: Slot
    point: bytes


class Join(Step, frozen=True):
    """This is the roster, ordered by owner."""

    roster: Statements


class Sealed(Step, frozen=True):
    """Shares of both secrets for each member of the roster, in its order; the own place is empty."""

    sealed: SealedShares


class Mask(Step, frozen=True):
    """These members gave shares to all others; this is what each sealed for this one, and the digest of its bundle."""

    members: Places
    sealed: SealedShares
    digests: Annotated[tuple[Digest, ...], Meta(max_length=MOST_MEMBERS)]


class Vector(Step, frozen=True):
    """The masked vector, numbers packed; `said` is to be signed."""

    vector: bytes
    said: Masked


class Survive(Step, frozen=True):
    """These members' vectors arrived."""

    survivors: Places


class Reveal(Step, frozen=True):
    """So many members stand for the same survivors."""

    stands: Statements


class Revealed(Step, frozen=True):
    """Shares of the seed of each survivor, and of the mask key of each member that is none; never both of anybody."""

    seeds: _Shares
    mask_keys: _Shares


Question = Begin | Join | Mask | Survive | Reveal
Answer = Offer | Sealed | Vector | Stand | Revealed

A = TypeVar("A", Offer, Sealed, Vector, Stand, Revealed)
_QUESTIONS: msgpack.Decoder[Question] = msgpack.Decoder(Question)
_ANSWERS: msgpack.Decoder[Answer] = msgpack.Decoder(Answer)


def encoded(step: Question | Answer) -> bytes:
    """For its way."""
    return msgpack.encode(step)


def question(raw: bytes) -> Question:
    """The question that these bytes are.

    Raises:
        MessageRefused: for `malformed`: they are none.
    """
    try:
        return _QUESTIONS.decode(raw)
    except (DecodeError, UnicodeError) as error:
        raise MessageRefused("malformed", "not a step of a secure sum") from error


def answer(raw: bytes) -> Answer:
    """The same for an answer."""
    try:
        return _ANSWERS.decode(raw)
    except (DecodeError, UnicodeError) as error:
        raise MessageRefused("malformed", "not an answer of a member's vault") from error
