"""Record numbering: a charge refers to a record by number, and a release reads the record with that number.

A number is durable: it stays the same even if the record is elsewhere in the file at a later start.

- **Hashed** (`number_by_hash`): the number is a keyed hash of the record, one of 2³² (`SPACE`). It depends only on that
  record: adding, removing or replacing one record does not change the numbers of the other records. Equal records
  share a number and are therefore charged together. Records may be added, removed, reordered or edited between starts;
  an edited record counts as a different record.
- **Enrolled** (`enrol_records`), for programs that reveal the number of records or need batches of a fixed size: a
  record's number is its position in the file at the task's first start. The ledger stores these records. Later files
  are not read, because the vault could not determine which of two equal records was removed, and others could see the
  difference (docs/decisions/0043-enrolled-records.md).

A ledger uses only one of these methods; otherwise, each record's cost would be undefined. If a signed task changes the
learner, every record is from then on charged at least as much as the most-charged record was before.
"""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records, add_identities
from sottovoce.errors import PrivacyError
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.ledger.record_numbers import EnrolledRecords

SPACE = 2**32
"""Size of the number space under add-remove. Two records share a number by chance with probability 2⁻³² and are then
charged together."""


def number_by_hash(records: Records, ledger: Ledger) -> Records:
    """Return the records with hashed numbers, under the ledger's key for record numbers.

    Raises:
        PrivacyError: if the ledger's charges use the other numbering.
    """
    ledger.numbers.set_numbering("hashed", ledger.mandate)
    key = ledger.numbers.key
    hashes = (blake2b(row, digest_size=4, key=key).digest() for row in _identities(records))
    units = np.fromiter((int.from_bytes(digest, "big") for digest in hashes), dtype=np.int64, count=len(records))
    return replace(records, units=units)


def accept_any_count(_: int) -> None:
    """Accept any number of records; the default check of `enrol_records`."""


def enrol_records(records: Records, ledger: Ledger, check: Callable[[int], None] = accept_any_count) -> Records:
    """Return the records of the task's first start, numbered by position; at the first start, enrol `records`.

    Args:
        records: the current records. They are enrolled if the task has no enrolled records yet, and ignored otherwise.
        ledger: the ledger that stores the enrolled records.
        check: raises DataError if there are too few records, in which case none are enrolled.

    Raises:
        DataError: if the check fails.
        LedgerError: if the records could not be stored.
        PrivacyError: if the ledger's charges use the other numbering, or if the enrolled records were prepared
            differently.
    """
    ledger.numbers.set_numbering("enrolled", ledger.mandate)
    epoch = 0 if ledger.mandate is None else ledger.mandate.epoch
    if (stored := ledger.numbers.enrolled_records(epoch)) is None:
        check(len(records))
        stored = _pack(records)
        ledger.numbers.enrol(epoch, stored)
    check(stored.records)
    if (stored.prepared, stored.features) != (records.prepared, features := records.features.shape[1]):
        raise PrivacyError(
            f"this ledger enrolled its records with {stored.prepared or 'no transform'} and {stored.features} "
            f"features, but the configuration specifies {records.prepared or 'no transform'} and {features}: restore "
            "[data], or have the fleet sign a new task"
        )
    return _unpack(stored, records.features.dtype)


def _pack(records: Records) -> EnrolledRecords:
    """Pack records into a value whose length depends only on their number and on the number of features.

    The value is not compressed, because the length of compressed records would reveal something about their content,
    and the ledger's size, its daily writes and the pauses that they cause can be seen by others.
    """
    features = np.ascontiguousarray(records.features, dtype="<f8")
    value = features.tobytes() + records.labels.astype("<i8").tobytes()
    return EnrolledRecords(records.prepared, len(records), features.shape[1], value)


def _unpack(stored: EnrolledRecords, dtype: np.dtype[np.floating[Any]]) -> Records:
    split = 8 * stored.records * stored.features
    return Records(
        np.frombuffer(stored.value[:split], dtype="<f8").reshape(stored.records, stored.features).astype(dtype),
        np.frombuffer(stored.value[split:], dtype="<i8").astype(np.int64),
        units=np.arange(stored.records, dtype=np.int64),
        prepared=stored.prepared,
    )


def block_bounds(count: int) -> NDArray[np.int64]:
    """Return the bounds of `count` equal blocks of hashes, int64[count + 1].

    Each record is assigned to a block independently, and block sizes vary. Replacing a record removes a record from one
    block and adds a record to a block. If both are the same block, its sum moves by two clip norms. Otherwise, two
    sums move by one clip norm each, which costs less.
    """
    return np.array([block * SPACE // count for block in range(count + 1)], dtype=np.int64)


def _identities(records: Records) -> list[bytes]:
    identities = add_identities(records).identities
    return [] if identities is None else [row.tobytes() for row in identities]
