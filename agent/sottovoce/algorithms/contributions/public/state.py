"""State of a device that mixes contributions."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.contributions.public.messages import Contribution

_MAX_RANK = 2**64
ContributionsByRank = Mapping[int, Contribution]
"""Contributions, keyed by their owner's rank."""


@dataclass(frozen=True, slots=True)
class ContributionsState:
    """The immutable state of a device. Peers, pending messages and the peers' holdings are lost on a restart.

    Attributes:
        numerator: int64[width], the unrounded sum of this device's releases in units of 2^-40.
        held: the contributions of other devices, and this device's own as last signed.
        frozen_contributions: revoked devices' contributions to models at which gradients have been computed; never sent
            to peers.
        new_ranks: the ranks of contributions that arrived since the last query; lost on a restart.
        cycle: the number of cycles begun.
        step: the number of private steps finished, which is the slot of the next query.
        variation: the sum of squared differences between this device's releases; see Damping.add.
        turn: the index in `peers` at which the next cycle begins.
        exhausted: whether the vault has refused permanently.
        declined_count: the number of contributions that differed too much from their predecessors; lost on a restart.
        simulated: whether the state includes a seeded release.
        peers: the node ids of possible recipients, in rotation order.
        peer_steps: for each peer, the step count by rank of the contributions that it reported, or was sent after that.
        last_sent_steps: for each peer, the step count by rank of the contributions that this device held when it last
            sent the peer a message.
        senders: the peers that have sent a message to this device.
        pending: the peers that have not confirmed the last message.
        pending_query: the id of the query that the vault is answering, if any.
        threshold: the C_t in the current query, if the schedule varies it.
        recent: this device's sum before each of its latest steps; lost on a restart.
        last: float64[P], this device's last release, if its steps are damped; lost on a restart.
    """

    numerator: NDArray[np.int64]
    held: ContributionsByRank = field(default_factory=dict)
    frozen_contributions: ContributionsByRank = field(default_factory=dict)
    new_ranks: frozenset[int] = frozenset()
    cycle: int = 0
    step: int = 0
    variation: float = 0.0
    turn: int = 0
    exhausted: bool = False
    declined_count: int = 0
    simulated: bool = False
    peers: tuple[str, ...] = ()
    peer_steps: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    last_sent_steps: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    senders: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    pending_query: bytes | None = None
    threshold: float | None = None
    recent: tuple[NDArray[np.int64], ...] = ()
    last: NDArray[np.float64] | None = None

    def traced(self) -> dict[str, Any]:
        """Return the traced part of the state, with amounts as integers in units of 2^-40; see State.traced."""
        return {
            "numerator": self.numerator.tolist(),
            "held": {contribution.owner: contribution.steps for contribution in self.held.values()},
            "cycle": self.cycle,
            "step": self.step,
            "pending": sorted(self.pending),
        }


def steps_by_rank(contributions: ContributionsByRank) -> dict[int, int]:
    """Return each contribution's step count, keyed by its owner's rank."""
    return {owner_rank: contribution.steps for owner_rank, contribution in contributions.items()}


def highest_stored_rank(ranks: Set[int], capacity: int) -> int:
    """Return the highest rank that a device keeps if it holds other devices' contributions at the given ranks."""
    return sorted(ranks)[capacity - 1] if len(ranks) >= capacity else _MAX_RANK
