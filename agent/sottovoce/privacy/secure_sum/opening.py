"""Compute the exact sum over the survivors from masked vectors and shares, and verify opened sums."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from msgspec import Meta, Struct
from numpy.typing import NDArray

from sottovoce.errors import MessageRefused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.masks import centre_values, own_mask, pair_mask, unpack_values
from sottovoce.privacy.secure_sum.shares import Combiner
from sottovoce.privacy.secure_sum.statements import (
    MAX_MEMBERS,
    Digest,
    Offer,
    Places,
    Roster,
    Statement,
    Statements,
    SurvivorConfirmation,
    decode_body,
    roster_from_offers,
    round_digest,
)
from sottovoce.privacy.secure_sum.steps import Revealed, Roots

_COMMITMENT = b"sottovoce/secure-sum/commitment/v1"

_Secrets = Annotated[tuple[Digest, ...], Meta(max_length=MAX_MEMBERS)]


def commitment(seed: bytes) -> bytes:
    """Return the hash by which a member commits to its seed."""
    return sha256(_COMMITMENT + seed).digest()


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets that open a sum.

    Attributes:
        seeds: seeds of the survivors' own masks, in roster order.
        mask_keys: private mask keys of the members that dropped out, in roster order.
        cheaters: roster indices of members whose shares do not match their offers; if there are any, the sum cannot be
            opened.
    """

    seeds: tuple[bytes, ...]
    mask_keys: tuple[bytes, ...]
    cheaters: tuple[int, ...] = ()


def recover_secrets(
    roster: Roster, members: Sequence[int], survivors: Sequence[int], revealed: Mapping[int, Revealed]
) -> Secrets:
    """Return the secrets that open the sum over the survivors.

    Args:
        roster: the roster.
        members: roster indices of the members that dealt shares to all others.
        survivors: roster indices of the survivors, ascending.
        revealed: shares that each member has revealed for these survivors; the threshold sets the number of members.
    """
    dropouts = [index for index in members if index not in survivors]
    combiner = Combiner(tuple(sorted(revealed)))
    seeds = [
        combiner.secret({index: shares.seeds[position].share for index, shares in revealed.items()})
        for position in range(len(survivors))
    ]
    mask_keys = [
        combiner.secret({index: shares.mask_keys[position].share for index, shares in revealed.items()})
        for position in range(len(dropouts))
    ]
    return Secrets(tuple(seeds), tuple(mask_keys), _find_cheaters(roster, survivors, dropouts, seeds, mask_keys))


def seed_matches(seed: bytes, offer: Offer) -> bool:
    """Return whether the seed matches the commitment in the offer."""
    return commitment(seed) == offer.commitment


def mask_key_matches(key: bytes, offer: Offer) -> bool:
    """Return whether the private key matches the public mask key in the offer."""
    return X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw() == offer.mask_key


def _find_cheaters(
    roster: Roster,
    survivors: Sequence[int],
    dropouts: Sequence[int],
    seeds: Sequence[bytes],
    mask_keys: Sequence[bytes],
) -> tuple[int, ...]:
    wrong_seeds = [
        index for index, seed in zip(survivors, seeds, strict=True) if not seed_matches(seed, roster.offers[index])
    ]
    wrong_keys = [
        index for index, key in zip(dropouts, mask_keys, strict=True) if not mask_key_matches(key, roster.offers[index])
    ]
    return (*wrong_seeds, *wrong_keys)


def compute_total(
    roster: Roster, h: bytes, members: Sequence[int], vectors: Mapping[int, bytes], secrets: Secrets, size: int
) -> NDArray[np.int64]:
    """Return the sum over the survivors, int64[size] in grid units.

    Args:
        roster: the roster.
        h: round digest.
        members: roster indices of the members that dealt shares to all others.
        vectors: masked vectors of all survivors, by roster index.
        secrets: the secrets from `recover_secrets`, with an empty `cheaters`.
        size: vector length.

    Raises:
        MessageRefused: for `shape`, if the vectors differ in length, or their length does not match `size`.
    """
    survivors = sorted(vectors)
    width, remainder = divmod(len(vectors[survivors[0]]), size)
    if remainder or len({len(raw) for raw in vectors.values()}) != 1:
        raise MessageRefused("shape", "the masked vectors of a cell do not all have the same length")
    dropouts = [index for index in members if index not in vectors]
    total = np.zeros(size, dtype=np.uint64)
    for index, seed in zip(survivors, secrets.seeds, strict=True):
        total += unpack_values(vectors[index], width) - own_mask(seed, h, size, width)
    for index, key in zip(dropouts, secrets.mask_keys, strict=True):
        private = X25519PrivateKey.from_private_bytes(key)
        for survivor in survivors:
            mask = pair_mask(private, roster.offers[survivor].mask_key, h, (index, survivor), size, width)
            total = total + mask if index < survivor else total - mask
    return centre_values(total, width)


class FalseStatement(MessageRefused):
    """Raised for a false statement, which proves that the sender is dishonest."""


class Opening(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Everything besides the masked vectors that a device needs to compute and verify a round's sum.

    Attributes:
        roster: signed offers, ordered by owner.
        members: roster indices of the members that dealt shares to all others.
        roots: the commitments of these members to their shares.
        stands: signed confirmations of the same survivors; the threshold sets how many there must be.
        seeds: see Secrets.
        mask_keys: see Secrets.
    """

    roster: Statements
    members: Places
    roots: Roots
    stands: Statements
    seeds: _Secrets
    mask_keys: _Secrets


@dataclass(frozen=True, slots=True)
class VerifiedOpening:
    """An opened sum whose statements have been verified.

    Attributes:
        opening: the opening.
        roster: the opening's roster.
        round: round digest h.
        survivors: roster indices of the survivors, ascending.
    """

    opening: Opening
    roster: Roster
    round: bytes
    survivors: tuple[int, ...]

    def total(self, vectors: Mapping[int, bytes], size: int) -> NDArray[np.int64]:
        """Return the sum over the survivors; see `compute_total`."""
        opening = self.opening
        secrets = Secrets(opening.seeds, opening.mask_keys)
        return compute_total(self.roster, self.round, opening.members, vectors, secrets, size)


def verify_opening(
    opening: Opening, cell: Cell, verify_signature: Callable[[Statement], None], is_revoked: Callable[[str], bool]
) -> VerifiedOpening:
    """Check every statement in an opened sum.

    Args:
        opening: an opening from an untrusted source.
        cell: the cell's size limits.
        verify_signature: raises MessageRefused if a statement was not signed by its owner or the owner is not in this
            fleet.
        is_revoked: returns whether the fleet has revoked a device; the confirmations of revoked devices do not count.

    Raises:
        FalseStatement: if the opening contains a false statement.
        MessageRefused: if the opening involves devices that this one does not know, or that the fleet has revoked.
    """
    roster = roster_from_offers(opening.roster)
    if not cell.least <= len(roster) <= cell.most:
        raise _invalid_opening("the roster size is not allowed in this task")
    for statement in roster.statements:
        verify_signature(statement)
    members, threshold = opening.members, cell.opening_threshold(len(roster))
    if list(members) != sorted(set(members)) or not members or members[-1] >= len(roster):
        raise _invalid_opening("the members are not valid roster positions")
    if len(opening.roots) != len(members) or not opening.stands:
        raise _invalid_opening("roots or confirmations are missing")
    h = round_digest(roster.digest, members, opening.roots)
    stand = decode_body(opening.stands[0], SurvivorConfirmation)
    survivors = stand.survivors
    if stand.round != h or list(survivors) != sorted(set(survivors)) or not {*survivors} <= {*members}:
        raise _invalid_opening("the survivors are not members of the round")
    credentials = {roster.owners[index]: roster.statements[index].credential for index in survivors}
    for confirmation in opening.stands:
        owner = confirmation.owner
        if owner not in credentials or decode_body(confirmation, SurvivorConfirmation) != stand:
            raise _invalid_opening("a non-survivor confirmed the survivors, or the confirmations differ")
        verify_signature(Statement(owner, confirmation.body, credentials[owner], confirmation.signature))
    signers = {confirmation.owner for confirmation in opening.stands if not is_revoked(confirmation.owner)}
    if min(len(signers), len(survivors)) < threshold:
        raise MessageRefused("cell", "too few devices confirmed the survivors of an opened sum")
    dropouts = [index for index in members if index not in survivors]
    if (len(opening.seeds), len(opening.mask_keys)) != (len(survivors), len(dropouts)):
        raise _invalid_opening("the opening has the wrong number of secrets")
    if _find_cheaters(roster, survivors, dropouts, opening.seeds, opening.mask_keys):
        raise _invalid_opening("a secret does not match its owner's offer")
    return VerifiedOpening(opening, roster, h, survivors)


def _invalid_opening(reason: str) -> FalseStatement:
    return FalseStatement("cell", f"an opened sum is invalid: {reason}")
