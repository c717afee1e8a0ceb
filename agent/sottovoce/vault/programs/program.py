"""What the vault needs to know of a computation before it may touch a record, and the computation itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records
from sottovoce.door import Query
from sottovoce.vault.mechanism import Mechanism


@dataclass(frozen=True, slots=True)
class Plan:
    """How a query will be answered, made before any record is read. It touches every record once.

    Attributes:
        mechanism: bound and noise of the release.
        size: coordinates of the release.
    """

    mechanism: Mechanism
    size: int


class Program(Protocol):
    """Pure: it never draws noise, never sends, never sees the ledger. The vault clips, sums and noises its rows."""

    def plan(self, query: Query) -> Plan | None:
        """The plan for this query, or None when this program does not answer such queries."""
        ...

    def compute(self, query: Query, records: Records) -> Iterator[NDArray[np.float64]]:
        """Batches float64[n, P] with one row a record, in any order; their sum is what will be privatised."""
        ...
