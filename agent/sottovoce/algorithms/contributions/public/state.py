"""State and messages of a device that mixes contributions."""

import hashlib
import struct
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.fleet.framing import frame_fields

_DOMAIN = b"sottovoce/contribution/v1"


@dataclass(frozen=True, slots=True)
class Contribution:
    """The sum of all releases by one device, Σ γ_t/B · release over its private steps.

    If there are two contributions from the same owner, the one with more steps replaces the other. A contribution
    consists of releases that are already charged.

    Attributes:
        owner: the node id of the device that made the releases.
        steps: the number of private steps, at least 1.
        numerator: int64[width] in units of 2^-40, read-only.
        credential: the owner's certificate, in DER.
        signature: the owner's signature over `signed_bytes`.
        simulated: whether any of it comes from a seeded noise stream; the wire refuses to encode such a contribution.
    """

    owner: str
    steps: int
    numerator: NDArray[np.int64]
    credential: bytes = b""
    signature: bytes = b""
    simulated: bool = False

    def signed_bytes(self, fleet: str, task: bytes) -> bytes:
        """Return the bytes to sign, bound to one task because values differ in meaning between tasks; see Signed."""
        numbers = self.numerator.astype("<i8").tobytes()
        return frame_fields(
            _DOMAIN, (fleet.encode(), task, self.owner.encode(), struct.pack(">Q", self.steps), numbers)
        )


@dataclass(frozen=True, slots=True)
class Contributions:
    """A message with contributions and a list of the contributions that the sender holds.

    Attributes:
        steps: the step count of each contribution that the sender holds, keyed by its owner's rank.
        contributions: the contributions in the message.
    """

    kind: ClassVar[str] = "contributions/1"

    steps: Mapping[int, int] = field(default_factory=dict)
    contributions: tuple[Contribution, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether any contribution comes from a seeded noise stream; see Message.simulated."""
        return any(contribution.simulated for contribution in self.contributions)

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return len(self.steps) + sum(contribution.numerator.size + 1 for contribution in self.contributions)

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        contributions = [
            {"owner": contribution.owner, "steps": contribution.steps, "numerator": contribution.numerator.tolist()}
            for contribution in self.contributions
        ]
        return {
            "steps": {str(owner_rank): steps for owner_rank, steps in sorted(self.steps.items())},
            "contributions": contributions,
        }


def rank(owner: str) -> int:
    """Return a device's rank, which is the same on every device: the first 8 bytes of its node id's SHA-256."""
    return int.from_bytes(hashlib.sha256(owner.encode()).digest()[:8], "big")


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
        peer_steps: for each peer, the step counts, keyed by rank, of the contributions that it reported or has been
            sent since.
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


def with_sent(state: ContributionsState, peer: str, contributions: tuple[Contribution, ...]) -> ContributionsState:
    """Return the state in which the peer is assumed to hold these contributions too."""
    known = {
        **state.peer_steps.get(peer, {}),
        **{rank(contribution.owner): contribution.steps for contribution in contributions},
    }
    return replace(state, peer_steps={**state.peer_steps, peer: known})
