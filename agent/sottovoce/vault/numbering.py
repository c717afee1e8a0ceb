"""Which number a record has: what a charge names, and what a release reads.

A number is durable. It follows from what the record was in its source, under a key that the ledger holds and that never
leaves the vault; not from the record's place. So records may be inserted, removed, reordered or edited between two
starts, and nobody else's number changes. An edited record is another one.

- **add-remove:** the number is the keyed hash of the record, one of 2³² (`SPACE`). It depends on that record alone,
  whatever else there is, was or will be: with or without one record, all others have the numbers that they have. Equal
  records share a number, and so pay for each other.
- **replace-one:** how many records there are is public. Records are numbered 0, 1, … as they are met, k equal ones as k
  records, and the ledger keeps the list. A record that comes back has its old number; the number of one that is gone is
  not given to another.
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
    """The records with the numbers by which this ledger charges them.

    Raises:
        LedgerError: new numbers could not be kept.
    """
    if ledger.budget.neighbouring != "add-remove":
        return enrolled(records, ledger)
    key = ledger.key
    hashes = (blake2b(row, digest_size=4, key=key).digest() for row in _identities(records))
    units = np.fromiter((int.from_bytes(of, "big") for of in hashes), dtype=np.int64, count=len(records))
    return replace(records, units=units)


def enrolled(records: Records, ledger: Ledger) -> Records:
    """The records numbered one by one, for programs that show how many there are: under replace-one, or no promise.

    Raises:
        LedgerError: new numbers could not be kept.
    """
    numbers = ledger.enrol(_told_apart(_identities(records), ledger.key))
    return replace(records, units=np.array(numbers, dtype=np.int64))


def blocks_of(neighbouring: str, size: int, count: int) -> NDArray[np.int64]:
    """Where `count` blocks of numbers begin, and at last where they end, int64[count + 1].

    Under replace-one a block is `size` numbers; under add-remove an equal part of all there are, so that each record is
    in a block drawn for it alone, and how many are in one varies.
    """
    whole = SPACE if neighbouring == "add-remove" else size * count
    return np.array([block * whole // count for block in range(count + 1)], dtype=np.int64)


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
