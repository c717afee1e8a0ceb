"""Numbering of records: a charge names a record's number, and a release reads the record with that number.

A number is durable, and does not depend on the record's place in the file at a later start.

- **Hashed** (`numbered`): the number is the keyed hash of the record, one of 2³² (`SPACE`). It depends on that record
  alone: adding, removing or replacing one record leaves the numbers of all others unchanged. Equal
  records share a number, and so pay for each other. Records may be added, removed, reordered or edited between starts;
  an edited record is another one.
- **Enrolled** (`enrolled`), for programs that reveal the number of records, or need batches of one size: a record's
  number is its place in the file of the task's first start. The ledger keeps these records, and no later file is read:
  the vault could not tell which of two equal records is gone, and that would be visible
  (docs/decisions/0043-enrolled-records.md).

A ledger uses only one of the two ways. Otherwise no rule could determine the cost of each record. After a change of the
learner by a signed task, each record counts as the one that has paid most.
"""

import zlib
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records, identified
from sottovoce.errors import PrivacyError
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.record_numbers import Enrolled

SPACE = 2**32
"""Numbers under add-remove. Records that share one by chance, one pair in 2³², pay for each other."""


def numbered(records: Records, ledger: Ledger) -> Records:
    """Return the records with their hashes under the ledger's key for numbers.

    Raises:
        PrivacyError: if the ledger's charges number them otherwise.
    """
    ledger.numbers.use("hashed", ledger.mandate)
    key = ledger.numbers.key
    hashes = (blake2b(row, digest_size=4, key=key).digest() for row in _identities(records))
    units = np.fromiter((int.from_bytes(of, "big") for of in hashes), dtype=np.int64, count=len(records))
    return replace(records, units=units)


def any_number(_: int) -> None:
    """Accept any number of records."""


def enrolled(records: Records, ledger: Ledger, check: Callable[[int], None] = any_number) -> Records:
    """Return the records of the task's first start, numbered by their places; at that start, these are `records`.

    Args:
        records: records of this start; they are enrolled if none have been yet, and ignored otherwise.
        ledger: ledger that stores the enrolled records.
        check: raises DataError if this number of records is too small; then none are enrolled.

    Raises:
        DataError: from the check.
        LedgerError: if the records could not be stored.
        PrivacyError: if the ledger's charges number records otherwise, or the enrolled ones were prepared otherwise.
    """
    ledger.numbers.use("enrolled", ledger.mandate)
    epoch = 0 if ledger.mandate is None else ledger.mandate.epoch
    if (held := ledger.numbers.enrolled_records(epoch)) is None:
        check(len(records))
        held = _packed(records)
        ledger.numbers.enrol(epoch, held)
    check(held.records)
    if (held.prepared, held.features) != (records.prepared, features := records.features.shape[1]):
        raise PrivacyError(
            f"this ledger enrolled its records as {held.prepared or 'they were'} with {held.features} features, and "
            f"the configuration says {records.prepared or 'as they are'} with {features}: put [data] back, or let the "
            "fleet sign a new task"
        )
    return _unpacked(held, records.features.dtype)


def _packed(records: Records) -> Enrolled:
    features = np.ascontiguousarray(records.features, dtype="<f8")
    value = zlib.compress(features.tobytes() + records.labels.astype("<i8").tobytes(), 1)
    return Enrolled(records.prepared, len(records), features.shape[1], value)


def _unpacked(held: Enrolled, dtype: np.dtype[np.floating[Any]]) -> Records:
    raw, split = zlib.decompress(held.value), 8 * held.records * held.features
    return Records(
        np.frombuffer(raw[:split], dtype="<f8").reshape(held.records, held.features).astype(dtype),
        np.frombuffer(raw[split:], dtype="<i8").astype(np.int64),
        units=np.arange(held.records, dtype=np.int64),
        prepared=held.prepared,
    )


def blocks_of(count: int) -> NDArray[np.int64]:
    """Return bounds of `count` equal parts of the hashes, int64[count + 1].

    Each record is in a block drawn for it alone, and how many are in one varies. Replacing a record takes one out of a
    block and puts one into a block: into the same, which moves its sum by two clips, or into another, which moves two
    sums by one each and so costs less.
    """
    return np.array([block * SPACE // count for block in range(count + 1)], dtype=np.int64)


def _identities(records: Records) -> list[bytes]:
    known = identified(records).identities
    return [] if known is None else [row.tobytes() for row in known]
