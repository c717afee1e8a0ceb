"""Published records: a noisy record travels with its owner's signature, so that anyone may learn from it.

Hegedűs & Jelasity 2017: a record is perturbed once; whatever is computed from it afterwards costs no more privacy.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

_DOMAIN = b"sottovoce/published-record/v1"

Key = tuple[str, int]
"""Owner and slot, which identify exactly one record."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """Perturbation of a record: the facts needed to learn from it.

    Attributes:
        scheme: name of a sottovoce.perturbation scheme.
        features: d, of the transformed record.
        classes: c.
        epsilon: ε of this one release, pure and replace-one; None if it has no noise.
    """

    scheme: str
    features: int
    classes: int
    epsilon: float | None


@dataclass(frozen=True, slots=True)
class PublishedRecord:
    """Perturbed record.

    Attributes:
        owner: node id of the device that published it.
        slot: number of the record among the owner's, from 0.
        perturbation: perturbation of the record.
        values: int64[width], the release on its scheme's grid, read-only.
        credential: the owner's certificate, DER.
        signature: the owner's, over `signed_bytes`.
        simulated: perturbed by a seeded stream; the wire refuses to encode it.
    """

    owner: str
    slot: int
    perturbation: Perturbation
    values: NDArray[np.int64]
    credential: bytes = b""
    signature: bytes = b""
    simulated: bool = False

    @property
    def key(self) -> Key:
        """Owner and slot."""
        return self.owner, self.slot

    def signed_bytes(self, fleet: str, task: bytes) -> bytes:
        """See Signed.signed_bytes: bound to no task, since the record itself states how it was perturbed."""
        del task
        how = self.perturbation
        epsilon = b"" if how.epsilon is None else struct.pack(">d", how.epsilon)
        fields = (
            fleet.encode(),
            self.owner.encode(),
            struct.pack(">Q", self.slot),
            how.scheme.encode(),
            struct.pack(">QQ", how.features, how.classes),
            epsilon,
            self.values.astype("<i8").tobytes(),
        )
        return _DOMAIN + b"".join(struct.pack(">Q", len(field)) + field for field in fields)


class Signed(Protocol):
    """Record that its owner has signed, and that travels under that signature from device to device."""

    @property
    def owner(self) -> str:
        """Node id of the owner."""
        ...

    @property
    def credential(self) -> bytes:
        """The owner's certificate, DER."""
        ...

    @property
    def signature(self) -> bytes:
        """The owner's, over `signed_bytes`."""
        ...

    def signed_bytes(self, fleet: str, task: bytes) -> bytes:
        """Return the bytes that the owner signs: each field after its length, in a domain of its own.

        Args:
            fleet: name of the fleet.
            task: digest of the fleet's task document.
        """
        ...


S = TypeVar("S", bound=Signed)


class Provenance(Protocol):
    """Signer of a device's own documents, and verifier of others'."""

    def signed(self, own: S) -> S:
        """Return the record with this device's credential and signature."""
        ...

    def verify(self, published: Signed) -> None:
        """Check that a document was published by its owner.

        Raises:
            MessageRefused: if it was not, or the owner does not belong to this fleet.
        """
        ...

    def admit(self, published: Signed) -> None:
        """Check that a document was published by its owner, which is in the fleet now: neither expired nor revoked.

        Raises:
            MessageRefused: if it was not, or the owner is not in the fleet now.
        """
        ...

    def refuses(self, owner: str) -> bool:
        """Return whether the fleet has revoked a device."""
        ...


@dataclass(frozen=True, slots=True)
class Holding:
    """Digest of a set of records: two devices with equal digests need not send each other records.

    Attributes:
        count: number of records.
        checksum: exclusive or of the first 8 bytes of every key's SHA-256.
    """

    count: int = 0
    checksum: int = 0


def _rank(key: Key) -> int:
    return int.from_bytes(hashlib.sha256(f"{key[0]}|{key[1]}".encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Shelf:
    """Records that a device holds: at most `capacity`, those whose keys hash lowest. Never changed in place.

    All devices of the same capacity therefore come to hold the same records, a uniform sample of all published ones.

    Attributes:
        capacity: largest number of records on it.
        ranked: the records by rank.
    """

    capacity: int
    ranked: Mapping[int, PublishedRecord] = field(default_factory=dict)

    @cached_property
    def holding(self) -> Holding:
        """Digest of the records."""
        checksum = 0
        for rank in self.ranked:
            checksum ^= rank
        return Holding(len(self.ranked), checksum)

    @cached_property
    def _order(self) -> list[int]:
        return sorted(self.ranked)

    def __len__(self) -> int:
        return len(self.ranked)

    def __contains__(self, key: Key) -> bool:
        return _rank(key) in self.ranked

    def records(self) -> Iterable[PublishedRecord]:
        """Return all records, in the same order on every device."""
        return (self.ranked[rank] for rank in self._order)

    def wants(self, key: Key) -> bool:
        """Return whether a record of this key would be kept and is not here yet."""
        rank = _rank(key)
        return rank not in self.ranked and (len(self.ranked) < self.capacity or rank < self._order[-1])

    def added(self, records: Iterable[PublishedRecord]) -> tuple[Self, list[PublishedRecord], list[PublishedRecord]]:
        """Return a shelf with these records added, the new records on it, and the records that had to leave it."""
        fresh = {_rank(record.key): record for record in records if record.key not in self}
        if not fresh:
            return self, [], []
        everything = {**self.ranked, **fresh}
        kept = sorted(everything)[: self.capacity]
        ranked = {rank: everything[rank] for rank in kept}
        new = [record for rank, record in sorted(fresh.items()) if rank in ranked]
        gone = [record for rank, record in self.ranked.items() if rank not in ranked]
        return replace(self, ranked=ranked), new, gone

    def without(self, refused: Callable[[str], bool]) -> tuple[Self, list[PublishedRecord]]:
        """Return a shelf without the records of refused owners, and these records."""
        owners = {owner for owner in {record.owner for record in self.ranked.values()} if refused(owner)}
        if not owners:
            return self, []
        gone = [record for record in self.ranked.values() if record.owner in owners]
        left = {rank: record for rank, record in self.ranked.items() if record.owner not in owners}
        return replace(self, ranked=left), gone

    def batch(self, after: int, count: int) -> tuple[tuple[PublishedRecord, ...], int]:
        """Return up to `count` records in cyclic rank order, beginning beyond rank `after`; and the last one's rank."""
        order = self._order
        start = int(np.searchsorted(np.array(order, dtype=np.uint64), np.uint64(after), side="right")) if order else 0
        chosen = list(islice((order[(start + i) % len(order)] for i in range(len(order))), count))
        return tuple(self.ranked[rank] for rank in chosen), chosen[-1] if chosen else after
