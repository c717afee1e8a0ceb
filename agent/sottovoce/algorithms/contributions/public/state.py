"""State and messages of a device that mixes contributions."""

import hashlib
import struct
import zlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
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
        steps: the number of private steps, at least 1; the sum of records is the first, if there is one.
        numerator: int64[width] in units of 2^-40, read-only.
        credential: the owner's certificate, in DER.
        signature: the owner's signature over `signed_bytes`.
        simulated: whether any of it comes from a seeded noise stream; the wire refuses to encode such a contribution.
        record_sum: int64[D + 1] in units of 2^-40, read-only; the owner's sum of records divided by B, if the fleet
            centres its records.
    """

    owner: str
    steps: int
    numerator: NDArray[np.int64]
    credential: bytes = b""
    signature: bytes = b""
    simulated: bool = False
    record_sum: NDArray[np.int64] | None = None

    def signed_bytes(self, fleet: str, task: bytes) -> bytes:
        """Return the bytes to sign, bound to one task because values differ in meaning between tasks; see Signed."""
        numbers = self.numerator.astype("<i8").tobytes()
        record_sum = () if self.record_sum is None else (self.record_sum.astype("<i8").tobytes(),)
        return frame_fields(
            _DOMAIN, (fleet.encode(), task, self.owner.encode(), struct.pack(">Q", self.steps), numbers, *record_sum)
        )

    @property
    def value_count(self) -> int:
        """The number of values in the contribution."""
        return self.numerator.size + (0 if self.record_sum is None else self.record_sum.size)


@dataclass(frozen=True, slots=True)
class Change:
    """The change from an owner's earlier contribution to a newer one.

    Attributes:
        owner_rank: the owner's rank.
        base: the step count of the earlier contribution.
        steps: the step count of the newer contribution.
        difference: int64[width] in units of 2^-40, the newer values minus the earlier ones, read-only.
        credential: the owner's certificate, in DER; empty if the recipient has listed it.
        signature: the owner's signature over the newer contribution.
        simulated: whether any of it comes from a seeded noise stream.
    """

    owner_rank: int
    base: int
    steps: int
    difference: NDArray[np.int64]
    credential: bytes = b""
    signature: bytes = b""
    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the change."""
        return self.difference.size


@dataclass(frozen=True, slots=True)
class Contributions:
    """A message with contributions and a list of the contributions that the sender holds.

    The list is either in `steps` and `certificates`, or in `ordered_steps` if the recipient knows the owners.

    Attributes:
        steps: the step count of each contribution that the sender holds, keyed by its owner's rank.
        contributions: the contributions in the message; without the certificates that the recipient has listed.
        certificates: the checksum of the certificate in each contribution that the sender holds, keyed by rank; empty
            if the sender needs every certificate, as earlier versions do.
        changes: newer contributions whose predecessors the recipient has listed.
        holdings: the digest of the owners of all contributions that the sender holds, and of their certificates; 0 if
            the sender understands neither changes nor digests, as earlier versions do.
        ordered_steps: the step counts of these contributions, in the order of their ranks.
    """

    kind: ClassVar[str] = "contributions/1"

    steps: Mapping[int, int] = field(default_factory=dict)
    contributions: tuple[Contribution, ...] = ()
    certificates: Mapping[int, int] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    holdings: int = 0
    ordered_steps: tuple[int, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether any contribution comes from a seeded noise stream; see Message.simulated."""
        return any(part.simulated for part in self._parts)

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return len(self.steps) + len(self.ordered_steps) + sum(part.value_count + 1 for part in self._parts)

    @property
    def _parts(self) -> tuple[Contribution | Change, ...]:
        return (*self.contributions, *self.changes)

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        contributions = [
            {"owner": contribution.owner, "steps": contribution.steps, "numerator": contribution.numerator.tolist()}
            | ({} if contribution.record_sum is None else {"record_sum": contribution.record_sum.tolist()})
            for contribution in self.contributions
        ]
        changes = [
            {"rank": str(change.owner_rank), "base": change.base, "steps": change.steps}
            | {"difference": change.difference.tolist()}
            for change in self.changes
        ]
        return {
            "steps": {str(owner_rank): steps for owner_rank, steps in sorted(self.steps.items())},
            "contributions": contributions,
        } | ({"changes": changes, "ordered_steps": list(self.ordered_steps)} if self.holdings else {})


@lru_cache(1024 + 1)  # the largest number of contributors that can be configured, and this device
def rank(owner: str) -> int:
    """Return a device's rank, which is the same on every device: the first 8 bytes of its node id's SHA-256."""
    return int.from_bytes(hashlib.sha256(owner.encode()).digest()[:8], "big")


_MAX_RANK = 2**64
ContributionsByRank = Mapping[int, Contribution]
"""Contributions, keyed by their owner's rank."""

Owners = tuple[tuple[int, int | None], ...]
"""The ranks of contributions, in ascending order, each with its certificate's checksum; None without a certificate."""


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
        step: the number of gradients received, which is the slot of the next query for one.
        record_sum: int64[D + 1], this device's sum of records divided by B, once it is released; see Contribution.
        mean_cycle: the cycle in which it was released.
        mean: float64[D], the mean by which records are centred, once it is derived; it never changes again.
        variation: the sum of squared differences between this device's releases; see Damping.add.
        turn: the index in `peers` at which the next cycle begins.
        exhausted: whether the vault has refused permanently.
        declined_count: the number of contributions that differed too much from their predecessors; lost on a restart.
        simulated: whether the state includes a seeded release.
        peers: the node ids of possible recipients, in rotation order.
        peer_steps: for each peer, the step counts, keyed by rank, of the contributions that it reported or has been
            sent since.
        peer_certificates: for each peer, the checksums of the certificates that it last listed, keyed by rank.
        last_sent_steps: for each peer, the step count by rank of the contributions that this device held when it last
            sent the peer a message.
        listed_before: for each peer, the same for the message before that.
        senders: the peers that have sent a message to this device.
        predecessors: the contributions that those in `held` have replaced, as far as they are stored.
        sent_changes: for each peer, the step count, keyed by rank, of the newest change that it was sent.
        peer_holdings: for each peer, the digest of the owners in its last message; see listing.py.
        listings: the sets of owners that this device has listed, keyed by their digests.
        pending: the peers that have not confirmed the last message.
        unsent: the number of this cycle's messages that wait for the reply to the one before.
        pending_query: the id of the query that the vault is answering, if any.
        threshold: the C_t in the current query, if the schedule varies it.
        recent: this device's sum before each of its latest steps; lost on a restart.
        last: float64[P], this device's last release, if its steps are damped; lost on a restart.
        repeats: with a live feed, the number of releases that the ledger repeats after the state was lost; lost on a
            restart.
        last_ended_window: the last window that has ended; None if no windows are followed.
        last_used_window: see ScheduleProgress.
        query_window: see ScheduleProgress.
    """

    numerator: NDArray[np.int64]
    held: ContributionsByRank = field(default_factory=dict)
    frozen_contributions: ContributionsByRank = field(default_factory=dict)
    new_ranks: frozenset[int] = frozenset()
    cycle: int = 0
    step: int = 0
    record_sum: NDArray[np.int64] | None = None
    mean_cycle: int | None = None
    mean: NDArray[np.float64] | None = None
    variation: float = 0.0
    turn: int = 0
    exhausted: bool = False
    declined_count: int = 0
    simulated: bool = False
    peers: tuple[str, ...] = ()
    peer_steps: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    peer_certificates: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    last_sent_steps: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    listed_before: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    senders: frozenset[str] = frozenset()
    predecessors: ContributionsByRank = field(default_factory=dict)
    sent_changes: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    peer_holdings: Mapping[str, int] = field(default_factory=dict)
    listings: Mapping[int, Owners] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    unsent: int = 0
    pending_query: bytes | None = None
    threshold: float | None = None
    recent: tuple[NDArray[np.int64], ...] = ()
    last: NDArray[np.float64] | None = None
    repeats: int = 0
    last_ended_window: int | None = None
    last_used_window: int | None = None
    query_window: int | None = None

    def traced(self) -> dict[str, Any]:
        """Return the traced part of the state, with amounts as integers in units of 2^-40; see State.traced."""
        return {
            "numerator": self.numerator.tolist(),
            "held": {contribution.owner: contribution.steps for contribution in self.held.values()},
            "cycle": self.cycle,
            "step": self.step,
            "pending": sorted(self.pending),
        } | ({} if self.mean is None else {"mean": self.mean.tolist()})


def steps_by_rank(contributions: ContributionsByRank) -> dict[int, int]:
    """Return each contribution's step count, keyed by its owner's rank."""
    return {owner_rank: contribution.steps for owner_rank, contribution in contributions.items()}


def certificates_by_rank(contributions: ContributionsByRank) -> dict[int, int]:
    """Return the checksum of each contribution's certificate, keyed by its owner's rank; empty in a simulation.

    The checksum only tells an owner's successive certificates apart. A signature is always verified with the whole
    certificate that the verifying device has.
    """
    return {
        owner_rank: zlib.crc32(contribution.credential)
        for owner_rank, contribution in contributions.items()
        if contribution.credential
    }


def without_listed_certificates(
    contributions: Iterable[Contribution], listed: Mapping[int, int]
) -> tuple[Contribution, ...]:
    """Return contributions for a recipient that has listed these certificates, and adds them again."""
    return tuple(
        replace(contribution, credential=b"")
        if listed.get(rank(contribution.owner)) == zlib.crc32(contribution.credential)
        else contribution
        for contribution in contributions
    )


def with_own_certificates(contributions: Iterable[Contribution], held: ContributionsByRank) -> tuple[Contribution, ...]:
    """Return received contributions with the certificates that their sender left out, as far as they are held."""
    return tuple(
        contribution
        if contribution.credential or (known := held.get(rank(contribution.owner))) is None
        else replace(contribution, credential=known.credential)
        for contribution in contributions
    )


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
