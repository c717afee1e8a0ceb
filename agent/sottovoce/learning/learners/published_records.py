"""Published records: noisy records sent along with their owner's signature, from which any device may learn.

Hegedűs & Jelasity 2017: a record is perturbed once, and nothing computed from it afterwards costs any more privacy.
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
"""An owner and a slot, which together identify one record."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """Describes how a record was perturbed, in enough detail to learn from it.

    Attributes:
        scheme: the name of a sottovoce.privacy.perturbation scheme.
        features: the number of features d in the transformed record.
        classes: the number of classes c.
        epsilon: ε for this single release, pure and replace-one; None if it is noise-free.
    """

    scheme: str
    features: int
    classes: int
    epsilon: float | None


@dataclass(frozen=True, slots=True)
class PublishedRecord:
    """A perturbed record.

    Attributes:
        owner: the node id of the device that published the record.
        slot: the number of the record among its owner's records, starting at 0.
        perturbation: how the record was perturbed.
        values: int64[width], the release on its scheme's grid, read-only.
        credential: the owner's certificate, in DER.
        signature: the owner's signature over `signed_bytes`.
        simulated: whether the noise came from a seeded stream; the wire codec refuses to encode such a record.
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
        """The record's owner and slot."""
        return self.owner, self.slot

    def signed_bytes(self, fleet: str, task: bytes) -> bytes:
        """Return the bytes to sign; see Signed.signed_bytes. They omit the task; the record states its perturbation."""
        perturbation = self.perturbation
        epsilon = b"" if perturbation.epsilon is None else struct.pack(">d", perturbation.epsilon)
        fields = (
            fleet.encode(),
            self.owner.encode(),
            struct.pack(">Q", self.slot),
            perturbation.scheme.encode(),
            struct.pack(">QQ", perturbation.features, perturbation.classes),
            epsilon,
            self.values.astype("<i8").tobytes(),
        )
        return _DOMAIN + b"".join(struct.pack(">Q", len(field)) + field for field in fields)


class Signed(Protocol):
    """A document signed by its owner, which keeps that signature as it passes from device to device."""

    @property
    def owner(self) -> str:
        """The owner's node id."""
        ...

    @property
    def credential(self) -> bytes:
        """The owner's certificate, in DER."""
        ...

    @property
    def signature(self) -> bytes:
        """The owner's signature over `signed_bytes`."""
        ...

    def signed_bytes(self, fleet: str, task: bytes) -> bytes:
        """Return the bytes that the owner signs: length-prefixed fields, in a separate domain for each document type.

        Args:
            fleet: the fleet name.
            task: the digest of the fleet's task document.
        """
        ...


S = TypeVar("S", bound=Signed)


class Provenance(Protocol):
    """Signs a device's own documents and verifies those of other devices."""

    def sign(self, document: S) -> S:
        """Return the document with this device's credential and signature."""
        ...

    def verify(self, document: Signed) -> None:
        """Check that a document was published by its owner.

        Raises:
            MessageRefused: if the owner did not publish the document, or does not belong to this fleet.
        """
        ...

    def admit(self, document: Signed) -> None:
        """Check that a document's owner published it and is currently neither expired nor revoked.

        Raises:
            MessageRefused: if the owner did not publish the document, or is not currently in the fleet.
        """
        ...

    def is_revoked(self, owner: str) -> bool:
        """Return whether the fleet has revoked the device `owner`."""
        ...


@dataclass(frozen=True, slots=True)
class Holding:
    """A digest of a set of records. Two devices with equal digests do not need to send each other any records.

    Attributes:
        count: the number of records.
        checksum: the XOR of the first 8 bytes of every key's SHA-256.
    """

    count: int = 0
    checksum: int = 0


def _rank(key: Key) -> int:
    return int.from_bytes(hashlib.sha256(f"{key[0]}|{key[1]}".encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Shelf:
    """The immutable set of records that a device stores: the `capacity` records with the lowest key hashes.

    All devices with the same capacity therefore converge to the same uniform sample of all published records.

    Attributes:
        capacity: the maximum number of records.
        ranked: the records, keyed by rank, which is the key hash.
    """

    capacity: int
    ranked: Mapping[int, PublishedRecord] = field(default_factory=dict)

    @cached_property
    def holding(self) -> Holding:
        """The digest of the records."""
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

    def would_store(self, key: Key) -> bool:
        """Return whether a record with this key would be stored but is not stored yet."""
        rank = _rank(key)
        return rank not in self.ranked and (len(self.ranked) < self.capacity or rank < self._order[-1])

    def add(self, records: Iterable[PublishedRecord]) -> tuple[Self, list[PublishedRecord], list[PublishedRecord]]:
        """Add these records, and return the new shelf, the newly stored records and the dropped records."""
        candidates = {_rank(record.key): record for record in records if record.key not in self}
        if not candidates:
            return self, [], []
        combined = {**self.ranked, **candidates}
        retained = sorted(combined)[: self.capacity]
        ranked = {rank: combined[rank] for rank in retained}
        new = [record for rank, record in sorted(candidates.items()) if rank in ranked]
        removed = [record for rank, record in self.ranked.items() if rank not in ranked]
        return replace(self, ranked=ranked), new, removed

    def without(self, refused: Callable[[str], bool]) -> tuple[Self, list[PublishedRecord]]:
        """Return a shelf without the refused owners' records, and the removed records."""
        owners = {owner for owner in {record.owner for record in self.ranked.values()} if refused(owner)}
        if not owners:
            return self, []
        removed = [record for record in self.ranked.values() if record.owner in owners]
        remaining = {rank: record for rank, record in self.ranked.items() if record.owner not in owners}
        return replace(self, ranked=remaining), removed

    def batch(self, after_rank: int, count: int) -> tuple[tuple[PublishedRecord, ...], int]:
        """Return up to `count` records in cyclic rank order after `after_rank`, and the last record's rank."""
        order = self._order
        if not order:
            return (), after_rank
        start = int(np.searchsorted(np.array(order, dtype=np.uint64), np.uint64(after_rank), side="right"))
        chosen = list(islice((order[(start + i) % len(order)] for i in range(len(order))), count))
        return tuple(self.ranked[rank] for rank in chosen), chosen[-1] if chosen else after_rank
