"""Sums of one vector per record, which another package's function computes from that record alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.clipped_sum import Batches, ClippedSum
from sottovoce.privacy.vault.programs.program import Plan

Row: TypeAlias = Callable[[NDArray[np.float64], NDArray[np.float64], int], NDArray[np.float64]]
"""Function of the query's point, float64[Q], a record's features, float64[d], and its label: float64[P]."""

_BATCH_NUMBERS = 2**17  # values in one batch of rows: 1 MiB


@dataclass(frozen=True, slots=True)
class RowSum:
    """Program for queries of one kind: Σ over records of clip(row(point, features, label)).

    The function sees one record at a time, so a record cannot change the row of another one. Whatever it returns, the
    mechanism clips.

    Attributes:
        kind: the kind of query.
        releases: number of sums that the budget covers.
        point_size: number of values in a query's point.
        mechanism: bound and noise of every release; clips each row.
        row: computes a record's row; if it fails, or returns something else, the row counts as 0, since an error would
            reveal something about the record.
    """

    kind: str
    releases: int
    point_size: int
    mechanism: ClippedSum
    row: Row

    def plan(self, query: Query) -> Plan[Batches] | Refused:
        """Return a plan for a finite point of the right size, in one of the slots that the budget covers."""
        if query.kind != self.kind:
            return Refused(query.id, "query", f"the terms have no quantity {query.kind!r}; they have {self.kind!r}")
        if query.point.shape != (self.point_size,) or not np.isfinite(query.point).all():
            return Refused(query.id, "query", f"the point of {self.kind!r} must be finite float64[{self.point_size}]")
        if not 0 <= query.slot < self.releases:
            return Refused(query.id, "budget", "all sums that the privacy budget covers have been released")
        return Plan(self.mechanism.event, self.mechanism)

    def compute(self, query: Query, records: Records) -> Batches:
        """Yield the records' rows in batches of about a megabyte."""
        size = self.mechanism.size
        batch = max(1, _BATCH_NUMBERS // size)
        for start in range(0, len(records), batch):
            numbers = range(start, min(start + batch, len(records)))
            rows = np.zeros((len(numbers), size))
            for i, number in enumerate(numbers):
                row = self._row_of(query, records.features[number], int(records.labels[number]))
                if row is not None and row.shape == (size,):
                    rows[i] = row
            yield rows

    def _row_of(self, query: Query, features: NDArray[np.float64], label: int) -> NDArray[np.float64] | None:
        point, features = query.point.copy(), features.astype(np.float64)  # copies, which the function may overwrite
        try:
            with np.errstate(all="ignore"):  # a warning would reveal something about a record
                row = np.asarray(self.row(point, features, label))
                return row.astype(np.float64) if row.dtype.kind in "biuf" else None
        except (Exception, SystemExit):  # noqa: BLE001 - see `row`
            return None
