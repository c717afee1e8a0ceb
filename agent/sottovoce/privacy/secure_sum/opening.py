"""Compute the exact sum over the survivors from masked vectors and shares, and verify opened sums."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Annotated

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from msgspec import Meta, Struct
from numpy.typing import NDArray

from sottovoce.errors import MessageRefused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.masks import centre_values, own_mask, pair_mask, unpack_values
from sottovoce.privacy.secure_sum.neighbourhoods import Neighbourhoods, neighbourhoods
from sottovoce.privacy.secure_sum.shares import Combiner
from sottovoce.privacy.secure_sum.statements import (
    MAX_MEMBERS,
    Digest,
    Offer,
    Places,
    Roster,
    Signatures,
    Statement,
    Statements,
    SurvivorConfirmation,
    body_bytes,
    restore_statements,
    roster_from_offers,
    round_digest,
    vectors_digest,
)
from sottovoce.privacy.secure_sum.steps import Revealed, RevealedShare, Roots

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
    roster: Roster,
    graph: Neighbourhoods,
    members: Sequence[int],
    survivors: Sequence[int],
    revealed: Mapping[int, Revealed],
) -> Secrets:
    """Return the secrets that open the sum over the survivors.

    Args:
        roster: the roster.
        graph: the roster's neighbourhoods.
        members: roster indices of the members that dealt shares to all their neighbours.
        survivors: roster indices of the survivors, ascending.
        revealed: shares that members have revealed for these survivors; enough of them to recover each secret.
    """
    dropouts = [index for index in members if index not in survivors]
    shares = shares_by_dealer(graph, revealed)
    combiners = {ranks: Combiner(ranks) for ranks in {tuple(held) for held in shares.values()}}
    secrets = {
        dealer: combiners[tuple(held)].secret({rank: share.share for rank, share in held.items()})
        for dealer, held in shares.items()
    }
    seeds, mask_keys = [secrets[dealer] for dealer in survivors], [secrets[dealer] for dealer in dropouts]
    return Secrets(tuple(seeds), tuple(mask_keys), _find_cheaters(roster, survivors, dropouts, seeds, mask_keys))


def shares_by_dealer(graph: Neighbourhoods, revealed: Mapping[int, Revealed]) -> dict[int, dict[int, RevealedShare]]:
    """Return the shares from which each member's secret is recovered, by their ranks among the member's holders.

    Args:
        graph: the roster's neighbourhoods.
        revealed: shares that members have revealed, by roster index; of either secret of a member, but not of both.
    """
    shares: dict[int, dict[int, RevealedShare]] = {}
    for holder in sorted(revealed):
        for share in (*revealed[holder].seeds, *revealed[holder].mask_keys):
            held, rank = shares.setdefault(share.dealer, {}), graph.rank(share.dealer, holder)
            if rank is not None and len(held) < graph.threshold:
                held[rank] = share
    return shares


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
    roster: Roster,
    graph: Neighbourhoods,
    h: bytes,
    members: Sequence[int],
    vectors: Mapping[int, bytes],
    secrets: Secrets,
    size: int,
) -> NDArray[np.int64]:
    """Return the sum over the survivors, int64[size] in grid units.

    Args:
        roster: the roster.
        graph: the roster's neighbourhoods.
        h: round digest.
        members: roster indices of the members that dealt shares to all their neighbours.
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
        for survivor in graph.present_holders(index, vectors):
            mask = pair_mask(private, roster.offers[survivor].mask_key, h, (index, survivor), size, width)
            total = total + mask if index < survivor else total - mask
    return centre_values(total, width)


class FalseStatement(MessageRefused):
    """Raised for a false statement, which proves that the sender is dishonest."""


class Opening(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Everything besides the masked vectors that a device needs to compute and verify a round's sum.

    Attributes:
        roster: signed offers, ordered by owner.
        members: roster indices of the members that dealt shares to all their neighbours.
        roots: the commitments of these members to their shares.
        survivors: roster indices of the survivors, ascending.
        vectors: SHA-256 of each survivor's masked vector, in roster order.
        stands: signatures that confirm these survivors and vectors; the threshold sets how many there must be.
        seeds: see Secrets.
        mask_keys: see Secrets.
    """

    roster: Statements
    members: Places
    roots: Roots
    survivors: Places
    vectors: Roots
    stands: Signatures
    seeds: _Secrets
    mask_keys: _Secrets


@dataclass(frozen=True, slots=True)
class VerifiedOpening:
    """An opened sum whose statements have been verified.

    Attributes:
        opening: the opening.
        roster: the opening's roster.
        graph: the roster's neighbourhoods.
        round: round digest h.
    """

    opening: Opening
    roster: Roster
    graph: Neighbourhoods
    round: bytes

    @property
    def survivors(self) -> tuple[int, ...]:
        """Roster indices of the survivors, ascending."""
        return self.opening.survivors

    def total(self, vectors: Mapping[int, bytes], size: int) -> NDArray[np.int64]:
        """Return the sum over the survivors; see `compute_total`."""
        opening = self.opening
        secrets = Secrets(opening.seeds, opening.mask_keys)
        return compute_total(self.roster, self.graph, self.round, opening.members, vectors, secrets, size)


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
    if len(opening.roots) != len(members):
        raise _invalid_opening("roots are missing")
    graph = neighbourhoods(cell, roster.digest, len(roster))
    h = round_digest(graph, members, opening.roots)
    survivors = opening.survivors
    if list(survivors) != sorted(set(survivors)) or not {*survivors} <= {*members}:
        raise _invalid_opening("the survivors are not members of the round")
    if len(opening.vectors) != len(survivors):
        raise _invalid_opening("vectors are missing")
    if not {*opening.stands.places} <= {*survivors}:
        raise _invalid_opening("a non-survivor confirmed the survivors")
    stand = body_bytes(SurvivorConfirmation(h, survivors, vectors_digest(opening.vectors)))
    for place, confirmation in zip(
        opening.stands.places,
        restore_statements(roster, opening.stands, [stand] * len(opening.stands.places)),
        strict=True,
    ):
        verify_signature(replace(confirmation, credential=roster.statements[place].credential))
    signers = {owner for place in opening.stands.places if not is_revoked(owner := roster.owners[place])}
    if min(len(signers), len(survivors)) < threshold:
        raise MessageRefused("cell", "too few devices confirmed the survivors of an opened sum")
    dropouts = [index for index in members if index not in survivors]
    if (len(opening.seeds), len(opening.mask_keys)) != (len(survivors), len(dropouts)):
        raise _invalid_opening("the opening has the wrong number of secrets")
    if _find_cheaters(roster, survivors, dropouts, opening.seeds, opening.mask_keys):
        raise _invalid_opening("a secret does not match its owner's offer")
    return VerifiedOpening(opening, roster, graph, h)


def _invalid_opening(reason: str) -> FalseStatement:
    return FalseStatement("cell", f"an opened sum is invalid: {reason}")
