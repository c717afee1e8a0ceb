"""Lists of the contributions that a device holds, and their digests, which a peer with the same owners understands.

Which owners there are seldom changes, unlike their steps. Once two devices list the same owners and certificates, their
messages therefore contain only a digest of these, and the steps in the order of the ranks.
"""

import hashlib
import struct
from dataclasses import replace

from sottovoce.algorithms.contributions.public.state import (
    Contributions,
    ContributionsByRank,
    ContributionsState,
    Owners,
    certificates_by_rank,
    steps_by_rank,
)

_MAX_REMEMBERED = 8
"""How many sets of owners a device remembers. A peer refers only to the last set that this device sent it."""


def owners_of(held: ContributionsByRank) -> Owners:
    """Return the ranks of the contributions that a device holds, in order, with their certificates' checksums."""
    checksums = certificates_by_rank(held)
    return tuple((owner_rank, checksums.get(owner_rank)) for owner_rank in sorted(held))


def digest(owners: Owners) -> int:
    """Return the digest of owners, from 1: the first 8 bytes of a SHA-256."""
    packed = b"".join(struct.pack("<QI", owner_rank, checksum or 0) for owner_rank, checksum in owners)
    return max(1, int.from_bytes(hashlib.sha256(packed).digest()[:8], "big"))


def with_listing(
    state: ContributionsState, message: Contributions, known: int
) -> tuple[ContributionsState, Contributions]:
    """Return a message with a list of the contributions that this device holds, and the state that remembers it.

    Args:
        state: the state of this device.
        message: the message without a list.
        known: the digest in the recipient's last message; 0 if it stated none.
    """
    owners = owners_of(state.held)
    holdings = digest(owners)
    if holdings not in state.listings:
        newest = dict(list(state.listings.items())[1 - _MAX_REMEMBERED :])
        state = replace(state, listings={**newest, holdings: owners})
    if known == holdings:
        ordered = tuple(state.held[owner_rank].steps for owner_rank, _ in owners)
        return state, replace(message, holdings=holdings, ordered_steps=ordered)
    certificates = {owner_rank: checksum for owner_rank, checksum in owners if checksum is not None}
    return state, replace(message, steps=steps_by_rank(state.held), certificates=certificates, holdings=holdings)


def with_full_list(message: Contributions, state: ContributionsState) -> Contributions | None:
    """Return a received message with the ranks of its list; None if it refers to owners that are not remembered."""
    if not message.ordered_steps:
        return message
    owners = state.listings.get(message.holdings)
    if owners is None and digest(current := owners_of(state.held)) == message.holdings:  # since a restart
        owners = current
    if owners is None or len(owners) != len(message.ordered_steps):
        return None
    return replace(
        message,
        steps={owner_rank: steps for (owner_rank, _), steps in zip(owners, message.ordered_steps, strict=True)},
        certificates={owner_rank: checksum for owner_rank, checksum in owners if checksum is not None},
        ordered_steps=(),
    )
