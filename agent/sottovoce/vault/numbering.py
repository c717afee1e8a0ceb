"""Which number a record has: what a charge names, and what a release reads.

A number is durable. It follows from what the record was in its source, under a key that the ledger holds and that never
leaves the vault; not from the record's place. So records may be inserted, removed, reordered or edited between two
starts, and nobody else's number changes. An edited record is another one.

- **Hashed** (`numbered`): the number is the keyed hash of the record, one of 2³² (`SPACE`). It depends on that record
  alone, whatever else there is, was or will be: with or without one record, or with another in its place, all others
  have the numbers that they have. Equal records share a number, and so pay for each other.
- **Enrolled** (`enrolled`), for programs that show how many records there are, or need batches of one size: a record's
  number is its place in the file of the start that first met it, behind the numbers of earlier such files; k equal
  records are k. Only a file with more records than any before it gives numbers: how many there are then follows from
  public sizes, and one record's number from no other record. Who comes in the place of another is not used.

A ledger numbers in one of the two ways. In the other nobody could say which record has paid what: after a learner that
numbers otherwise it has to be told by a task of the fleet's, from which on each record is taken for the dearest.
"""

from collections import Counter
from dataclasses import replace
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records, identified
from sottovoce.vault.ledger import Ledger

SPACE = 2**32
"""Numbers under add-remove. Records that share one by chance, one pair in 2³², pay for each other."""


def numbered(records: Records, ledger: Ledger) -> Records:
    """The records with their hashes under the ledger's key for numbers.

    Raises:
        PrivacyError: the ledger's charges number them otherwise.
    """
    ledger.numbers.use("hashed", ledger.mandate)
    key = ledger.numbers.key
    hashes = (blake2b(row, digest_size=4, key=key).digest() for row in _identities(records))
    units = np.fromiter((int.from_bytes(of, "big") for of in hashes), dtype=np.int64, count=len(records))
    return replace(records, units=units)


def enrolled(records: Records, ledger: Ledger) -> Records:
    """The records numbered one by one; -1 for those that have no number. Under replace-one, or without a promise.

    Raises:
        LedgerError: new numbers could not be kept.
        PrivacyError: the ledger's charges number them otherwise.
    """
    ledger.numbers.use("enrolled", ledger.mandate)
    numbers = ledger.numbers.enrol(_told_apart(_identities(records), ledger.numbers.key))
    return replace(records, units=np.array(numbers, dtype=np.int64))


def blocks_of(count: int) -> NDArray[np.int64]:
    """Where `count` equal parts of the hashes begin, and at last where they end, int64[count + 1].

    Each record is in a block drawn for it alone, and how many are in one varies. Replacing a record takes one out of a
    block and puts one into a block: into the same, which moves its sum by two clips, or into another, which moves two
    sums by one each and so costs less.
    """
    return np.array([block * SPACE // count for block in range(count + 1)], dtype=np.int64)


def _identities(records: Records) -> list[bytes]:
    known = identified(records).identities
    return [] if known is None else [row.tobytes() for row in known]


def _told_apart(rows: list[bytes], key: bytes) -> list[bytes]:
    """A digest for each row, the first, second, … of equal ones a different one."""
    met: Counter[bytes] = Counter()
    digests = []
    for row in rows:
        digests.append(blake2b(row + met[row].to_bytes(8, "big"), digest_size=16, key=key).digest())
        met[row] += 1
    return digests
