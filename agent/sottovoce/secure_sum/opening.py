"""Computation of the exact sum over the survivors from masked vectors and shares, and verification of an opened sum."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from msgspec import Meta, Struct
from numpy.typing import NDArray

from sottovoce.cell import Cell
from sottovoce.errors import MessageRefused
from sottovoce.secure_sum.masks import centred, own_mask, pair_mask, unpacked
from sottovoce.secure_sum.shares import Combiner
from sottovoce.secure_sum.statements import (
    MAX_MEMBERS,
    Digest,
    Offer,
    Places,
    Roster,
    Stand,
    Statement,
    Statements,
    body_of,
    roster_of,
    round_digest,
)
from sottovoce.secure_sum.steps import Revealed, Roots

_COMMITMENT = b"sottovoce/secure-sum/commitment/v1"

_Secrets = Annotated[tuple[Digest, ...], Meta(max_length=MAX_MEMBERS)]


def commitment(seed: bytes) -> bytes:
    """Return the commitment of a member to its seed."""
    return sha256(_COMMITMENT + seed).digest()


@dataclass(frozen=True, slots=True)
class Secrets:
    """Secrets that open a sum.

    Attributes:
        seeds: seeds of the survivors' own masks, ascending.
        mask_keys: private mask keys of the members that dropped out, ascending.
        cheated: places of members whose shares do not fit their offers, for which there is no sum.
    """

    seeds: tuple[bytes, ...]
    mask_keys: tuple[bytes, ...]
    cheated: tuple[int, ...] = ()


def recover_secrets(
    roster: Roster, members: Sequence[int], survivors: Sequence[int], revealed: Mapping[int, Revealed]
) -> Secrets:
    """Return the secrets that open the sum over the survivors.

    Args:
        roster: the roster.
        members: places of the members that gave shares to all.
        survivors: places, ascending.
        revealed: by member, the shares it revealed for these survivors; of as many members as the threshold requires.
    """
    gone = [place for place in members if place not in survivors]
    combiner = Combiner(tuple(sorted(revealed)))
    seeds = [
        combiner.secret({one: said.seeds[i].share for one, said in revealed.items()}) for i in range(len(survivors))
    ]
    keys = [combiner.secret({one: said.mask_keys[i].share for one, said in revealed.items()}) for i in range(len(gone))]
    return Secrets(tuple(seeds), tuple(keys), _cheated(roster, survivors, gone, seeds, keys))


def is_seed(seed: bytes, offer: Offer) -> bool:
    """Return whether this is the seed that was offered."""
    return commitment(seed) == offer.commitment


def is_mask_key(key: bytes, offer: Offer) -> bool:
    """Return whether this is the mask key that was offered."""
    return X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw() == offer.mask_key


def _cheated(
    roster: Roster, survivors: Sequence[int], gone: Sequence[int], seeds: Sequence[bytes], keys: Sequence[bytes]
) -> tuple[int, ...]:
    wrong_seeds = [
        place for place, seed in zip(survivors, seeds, strict=True) if not is_seed(seed, roster.offers[place])
    ]
    wrong_keys = [place for place, key in zip(gone, keys, strict=True) if not is_mask_key(key, roster.offers[place])]
    return (*wrong_seeds, *wrong_keys)


def total_of(
    roster: Roster, h: bytes, members: Sequence[int], vectors: Mapping[int, bytes], secrets: Secrets, size: int
) -> NDArray[np.int64]:
    """Return the sum over the survivors, int64[size] in grid units.

    Args:
        roster: the roster.
        h: hash of the round.
        members: places of those that gave shares to all.
        vectors: vectors of all survivors, masked, by place.
        secrets: the secrets from `recovered`, with no member that cheated.
        size: length of a vector.

    Raises:
        MessageRefused: for `shape`: vectors do not have the same length.
    """
    survivors = sorted(vectors)
    width, rest = divmod(len(vectors[survivors[0]]), size)
    if rest or len({len(raw) for raw in vectors.values()}) != 1:
        raise MessageRefused("shape", "masked vectors of a cell do not have the same length")
    gone = [place for place in members if place not in vectors]
    total = np.zeros(size, dtype=np.uint64)
    for place, seed in zip(survivors, secrets.seeds, strict=True):
        total += unpacked(vectors[place], width) - own_mask(seed, h, size, width)
    for place, key in zip(gone, secrets.mask_keys, strict=True):
        private = X25519PrivateKey.from_private_bytes(key)
        for other in survivors:
            mask = pair_mask(private, roster.offers[other].mask_key, h, (place, other), size, width)
            total = total + mask if place < other else total - mask
    return centred(total, width)


class Lie(MessageRefused):
    """Error of a statement that is false, and that no honest device could make."""


class Opening(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Data that any device needs, beside the masked vectors, to compute the sum of a round and to check it.

    Attributes:
        roster: signed offers, ordered by owner.
        members: places of those that gave shares to all.
        roots: commitments of these members to their shares.
        stands: as many survivors as the threshold requires, each for the same survivors.
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
class Verified:
    """A verified opening.

    Attributes:
        opening: the opening.
        roster: its roster.
        round: digest h of the round.
        survivors: places, ascending.
    """

    opening: Opening
    roster: Roster
    round: bytes
    survivors: tuple[int, ...]

    def total(self, vectors: Mapping[int, bytes], size: int) -> NDArray[np.int64]:
        """Return the sum over the survivors; see `total_of`."""
        opening = self.opening
        secrets = Secrets(opening.seeds, opening.mask_keys)
        return total_of(self.roster, self.round, opening.members, vectors, secrets, size)


def verify_opening(
    opening: Opening, cell: Cell, belongs: Callable[[Statement], None], refused: Callable[[str], bool]
) -> Verified:
    """Check every statement in an opening.

    Args:
        opening: an opening from an untrusted source.
        cell: rule of the cell.
        belongs: raises MessageRefused where a statement was not signed by the device of this fleet that it names.
        refused: whether the fleet has revoked a device; its statement for survivors counts for nothing then.

    Raises:
        Lie: if something in it does not hold.
        MessageRefused: if it involves devices that this one does not know, or that the fleet has revoked.
    """
    roster = roster_of(opening.roster)
    if not cell.least <= len(roster) <= cell.most:
        raise _invalid_opening("its roster does not have this task's size")
    for statement in roster.statements:
        belongs(statement)
    members, needed = opening.members, cell.opens_at(len(roster))
    if list(members) != sorted(set(members)) or not members or members[-1] >= len(roster):
        raise _invalid_opening("its members are not valid positions in its roster")
    if len(opening.roots) != len(members) or not opening.stands:
        raise _invalid_opening("it is incomplete")
    h = round_digest(roster.digest, members, opening.roots)
    stand = body_of(opening.stands[0], Stand)
    survivors = stand.survivors
    if stand.round != h or list(survivors) != sorted(set(survivors)) or not {*survivors} <= {*members}:
        raise _invalid_opening("its survivors are not members of its round")
    credentials = {roster.owners[place]: roster.statements[place].credential for place in survivors}
    for one in opening.stands:
        if one.owner not in credentials or body_of(one, Stand) != stand:
            raise _invalid_opening("a device that is not a survivor confirmed them, or a device confirmed others")
        belongs(Statement(one.owner, one.body, credentials[one.owner], one.signature))
    signers = {one.owner for one in opening.stands if not refused(one.owner)}
    if min(len(signers), len(survivors)) < needed:
        raise MessageRefused("cell", "too few devices confirm the survivors of an opened sum")
    gone = [place for place in members if place not in survivors]
    if (len(opening.seeds), len(opening.mask_keys)) != (len(survivors), len(gone)):
        raise _invalid_opening("it is incomplete")
    if _cheated(roster, survivors, gone, opening.seeds, opening.mask_keys):
        raise _invalid_opening("a secret is not the one that its owner offered")
    return Verified(opening, roster, h, survivors)


def _invalid_opening(why: str) -> Lie:
    return Lie("cell", f"an opened sum is invalid: {why}")
