"""Steps of a round: queries to a member's vault, and its answers. All of it is public.

Each question goes with one answer: Begin with Offer, Join with Sealed, Agree with Ready or Unfit, Mask with Vector,
Survive with Stand, Reveal with Revealed, and End with Ended.
"""

from typing import Annotated, TypeVar

from msgspec import DecodeError, Meta, Struct, msgpack

from sottovoce.errors import MessageRefused
from sottovoce.secure_sum.share_tree import HASH_BYTES, MAX_LEVELS
from sottovoce.secure_sum.shares import SEALED_BYTES, SHARE_BYTES
from sottovoce.secure_sum.statements import (
    MAX_MEMBERS,
    Digest,
    Masked,
    Offer,
    Place,
    Places,
    Ready,
    Slot,
    Stand,
    Statements,
)

_Sealed = Annotated[bytes, Meta(max_length=SEALED_BYTES)]
_Share = Annotated[bytes, Meta(min_length=SHARE_BYTES, max_length=SHARE_BYTES)]
SealedShares = Annotated[tuple[_Sealed, ...], Meta(max_length=MAX_MEMBERS)]
Path = Annotated[bytes, Meta(max_length=HASH_BYTES * MAX_LEVELS)]
Paths = Annotated[tuple[Path, ...], Meta(max_length=MAX_MEMBERS)]
Roots = Annotated[tuple[Digest, ...], Meta(max_length=MAX_MEMBERS)]
Leaves = Annotated[tuple[Digest, ...], Meta(max_length=2 * MAX_MEMBERS)]


class Step(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag=True):
    """Base class of a step of a secure sum."""


class Begin(Step, frozen=True):
    """Request to offer to take part in a sum at this point, float64[P], little-endian; earlier offers are void."""

    slot: Slot
    point: bytes


class Join(Step, frozen=True):
    """Request to join a roster, which is ordered by owner."""

    roster: Statements


class Sealed(Step, frozen=True):
    """Shares of both secrets for each member of the roster, in its order; this device's own place is empty.

    The leaves commit to all of these shares; see sottovoce.secure_sum.share_tree.
    """

    sealed: SealedShares
    leaves: Leaves


class Agree(Step, frozen=True):
    """Members that dealt shares to all others: each one's sealed share for this one, its path, and the signed root."""

    members: Places
    sealed: SealedShares
    paths: Paths
    roots: Roots


class Unfit(Step, frozen=True):
    """Refusal to continue with these members, whose shares do not fit the roots that they signed."""

    dealers: Places


class Mask(Step, frozen=True):
    """Request for the masked vector: enough members are ready for the same round."""

    readies: Statements


class Vector(Step, frozen=True):
    """Masked vector, packed; `said` is to be signed."""

    vector: bytes
    said: Masked


class Survive(Step, frozen=True):
    """Request to stand for the survivors: the members whose vectors arrived."""

    survivors: Places


class Reveal(Step, frozen=True):
    """Request to reveal shares: enough members stand for the same survivors."""

    stands: Statements


class RevealedShare(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Share of one secret of one member, with the proof that this share was dealt.

    Attributes:
        dealer: place of the member.
        share: share of the member's seed, or of its mask key.
        other: leaf of the share of the member's other secret.
        path: see ShareTree.path.
    """

    dealer: Place
    share: _Share
    other: Digest
    path: Path


RevealedShares = Annotated[tuple[RevealedShare, ...], Meta(max_length=MAX_MEMBERS)]


class Revealed(Step, frozen=True):
    """Shares of each survivor's seed, and of the mask key of each other member; never both of one member."""

    seeds: RevealedShares
    mask_keys: RevealedShares


class End(Step, frozen=True):
    """Request to drop the secrets of a finished round, if they are of this sum or an earlier one."""

    slot: Slot


class Ended(Step, frozen=True):
    """Answer that the secrets are dropped."""


Question = Begin | Join | Agree | Mask | Survive | Reveal | End
Answer = Offer | Sealed | Ready | Unfit | Vector | Stand | Revealed | Ended

A = TypeVar("A", Offer, Sealed, Ready, Unfit, Vector, Stand, Revealed, Ended)
_QUESTIONS: msgpack.Decoder[Question] = msgpack.Decoder(Question)
_ANSWERS: msgpack.Decoder[Answer] = msgpack.Decoder(Answer)


def encoded(step: Question | Answer) -> bytes:
    """Return the bytes of a step."""
    return msgpack.encode(step)


def decode_question(raw: bytes) -> Question:
    """Decode a question.

    Raises:
        MessageRefused: for `malformed`: the bytes are not a question.
    """
    try:
        return _QUESTIONS.decode(raw)
    except (DecodeError, UnicodeError) as error:
        raise MessageRefused("malformed", "not a step of a secure sum") from error


def decode_answer(raw: bytes) -> Answer:
    """Decode an answer."""
    try:
        return _ANSWERS.decode(raw)
    except (DecodeError, UnicodeError) as error:
        raise MessageRefused("malformed", "not an answer of a member's vault") from error
