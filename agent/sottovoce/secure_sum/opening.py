"""From masked vectors and shares to the sum of those who are in it, exactly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from sottovoce.errors import MessageRefused
from sottovoce.secure_sum.masks import centred, own_mask, pair_mask, unpacked
from sottovoce.secure_sum.shares import Combiner
from sottovoce.secure_sum.statements import Roster
from sottovoce.secure_sum.steps import Revealed

_COMMITMENT = b"sottovoce/secure-sum/commitment/v1"


def commitment(seed: bytes) -> bytes:
    """What a member promises its seed by."""
    return sha256(_COMMITMENT + seed).digest()


@dataclass(frozen=True, slots=True)
class Opened:
    """A sum.

    Attributes:
        total: int64[P], in grid units.
        cheated: places of members whose secrets are not what they offered, for which there is no sum.
    """

    total: NDArray[np.int64]
    cheated: tuple[int, ...] = ()


def opened(
    roster: Roster,
    h: bytes,
    members: Sequence[int],
    vectors: Mapping[int, bytes],
    revealed: Mapping[int, Revealed],
    size: int,
) -> Opened:
    """The sum over the survivors.

    Args:
        roster: the roster.
        h: of the round.
        members: those that gave shares to all.
        vectors: of all survivors, masked.
        revealed: by member, what it revealed for these survivors; as many members as the threshold says.
        size: numbers of a vector.

    Raises:
        MessageRefused: for `shape`: vectors are not of one length.
    """
    survivors = sorted(vectors)
    width, rest = divmod(len(vectors[survivors[0]]), size)
    if rest or len({len(raw) for raw in vectors.values()}) != 1:
        raise MessageRefused("shape", "masked vectors of a cell are not of one length")
    gone = [place for place in members if place not in vectors]
    combiner = Combiner(tuple(sorted(revealed)))
    total = np.zeros(size, dtype=np.uint64)
    cheated = []
    for i, place in enumerate(survivors):
        seed = combiner.secret({one: said.seeds[i] for one, said in revealed.items()})
        if commitment(seed) != roster.offers[place].commitment:
            cheated.append(place)
        total += unpacked(vectors[place], width) - own_mask(seed, h, size, width)
    for i, place in enumerate(gone):
        key = combiner.secret({one: said.mask_keys[i] for one, said in revealed.items()})
        private = X25519PrivateKey.from_private_bytes(key)
        if private.public_key().public_bytes_raw() != roster.offers[place].mask_key:
            cheated.append(place)
            continue
        for other in survivors:
            mask = pair_mask(private, roster.offers[other].mask_key, h, (place, other), size, width)
            total = total + mask if place < other else total - mask
    return Opened(centred(total, width), tuple(cheated))
