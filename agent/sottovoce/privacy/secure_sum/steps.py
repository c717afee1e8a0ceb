"""Steps of a round: questions to a member's vault and the vault's answers, all of which are public.

The vault answers Begin with Offer, Join with Sealed, Agree with Ready or Unfit, Mask with Vector, Survive with
SurvivorConfirmation, Reveal with Revealed, and End with Ended.
"""

from typing import Annotated, TypeVar

from msgspec import DecodeError, Meta, Struct, msgpack

from sottovoce.errors import MessageRefused
from sottovoce.privacy.secure_sum.share_tree import HASH_BYTES, MAX_LEVELS
from sottovoce.privacy.secure_sum.shares import SEALED_BYTES, SHARE_BYTES
from sottovoce.privacy.secure_sum.statements import (
    MAX_MEMBERS,
    Digest,
    Masked,
    Offer,
    Place,
    Places,
    Ready,
    Slot,
    Statements,
    SurvivorConfirmation,
)

_Sealed = Annotated[bytes, Meta(max_length=SEALED_BYTES)]
_Share = Annotated[bytes, Meta(min_length=SHARE_BYTES, max_length=SHARE_BYTES)]
SealedShares = Annotated[tuple[_Sealed, ...], Meta(max_length=MAX_MEMBERS)]
Path = Annotated[bytes, Meta(max_length=HASH_BYTES * MAX_LEVELS)]
Paths = Annotated[tuple[Path, ...], Meta(max_length=MAX_MEMBERS)]
Roots = Annotated[tuple[Digest, ...], Meta(max_length=MAX_MEMBERS)]
Leaves = Annotated[tuple[Digest, ...], Meta(max_length=2 * MAX_MEMBERS)]


class Step(Struct, frozen=True, forbid_unknown_fields=True, array_like=True, tag=True):
    """Base class for the steps of a secure sum."""


class Begin(Step, frozen=True):
    """Request for an offer to take part in a sum at `point`, float64[P], little-endian; this voids earlier offers."""

    slot: Slot
    point: bytes


class Join(Step, frozen=True):
    """Request to join a roster, which is ordered by owner."""

    roster: Statements


class Sealed(Step, frozen=True):
    """Sealed shares of both secrets for each member that holds shares, in roster order; any entry for itself is empty.

    The leaves commit to the shares themselves; see sottovoce.privacy.secure_sum.share_tree.
    """

    sealed: SealedShares
    leaves: Leaves


class Agree(Step, frozen=True):
    """Request to agree on the members that dealt shares to all their neighbours.

    For each of these members, the request contains the signed root, and for each of them that is a neighbour, or this
    device itself, the sealed shares for this device and their path.
    """

    members: Places
    sealed: SealedShares
    paths: Paths
    roots: Roots


class Unfit(Step, frozen=True):
    """Refusal to continue with these dealers, because their shares do not match the roots that they signed."""

    dealers: Places


class Mask(Step, frozen=True):
    """Request for the masked vector, sent when enough members are ready for the same round."""

    readies: Statements


class Vector(Step, frozen=True):
    """The packed masked vector, and the statement about it that the device must sign."""

    vector: bytes
    statement: Masked


class Survive(Step, frozen=True):
    """Request to confirm the survivors, which are the members whose vectors arrived, and these vectors' digest."""

    survivors: Places
    vectors: Digest


class Reveal(Step, frozen=True):
    """Request to reveal shares, sent when enough members have confirmed the same survivors."""

    stands: Statements


class RevealedShare(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A share of one of a member's secrets, with proof that the member dealt this share.

    Attributes:
        dealer: the member's roster index.
        share: share of the member's seed or mask key.
        other: leaf for the share of the member's other secret.
        path: see ShareTree.path.
    """

    dealer: Place
    share: _Share
    other: Digest
    path: Path


RevealedShares = Annotated[tuple[RevealedShare, ...], Meta(max_length=MAX_MEMBERS)]


class Revealed(Step, frozen=True):
    """Shares of each survivor's seed, and of every other neighbour's mask key, but never of both for one member."""

    seeds: RevealedShares
    mask_keys: RevealedShares


class End(Step, frozen=True):
    """Request to delete the secrets of a finished round if they belong to this sum or an earlier one."""

    slot: Slot


class Ended(Step, frozen=True):
    """Confirmation that the secrets have been deleted."""


Question = Begin | Join | Agree | Mask | Survive | Reveal | End
Answer = Offer | Sealed | Ready | Unfit | Vector | SurvivorConfirmation | Revealed | Ended

A = TypeVar("A", Offer, Sealed, Ready, Unfit, Vector, SurvivorConfirmation, Revealed, Ended)
_QUESTIONS: msgpack.Decoder[Question] = msgpack.Decoder(Question)
_ANSWERS: msgpack.Decoder[Answer] = msgpack.Decoder(Answer)


def encode_step(step: Question | Answer) -> bytes:
    """Encode a step as bytes."""
    return msgpack.encode(step)


def decode_question(raw: bytes) -> Question:
    """Decode a question.

    Raises:
        MessageRefused: for `malformed`, if the bytes are not a question.
    """
    try:
        return _QUESTIONS.decode(raw)
    except (DecodeError, UnicodeError) as error:
        raise MessageRefused("malformed", "the data is not a secure-sum request") from error


def decode_answer(raw: bytes) -> Answer:
    """Decode an answer.

    Raises:
        MessageRefused: for `malformed`, if the bytes are not an answer.
    """
    try:
        return _ANSWERS.decode(raw)
    except (DecodeError, UnicodeError) as error:
        raise MessageRefused("malformed", "the data is not an answer from a cell member's vault") from error
