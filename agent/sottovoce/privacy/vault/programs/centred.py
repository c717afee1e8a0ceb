"""The sum of a device's records, released once, and gradients over records that are centred by a public mean.

The mean is a number of the query, like the model: the vault does not trust it. For any mean, the centred copy of a
record depends on that record alone, and the gradient at the copy is clipped like any other.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records
from sottovoce.kernels.decentralised.centring import LONGEST_MEAN, Coordinates
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.clipped_sum import Batches, ClippedSum
from sottovoce.privacy.vault.programs.gradient import GradientSum, NormalisedSum
from sottovoce.privacy.vault.programs.program import Plan

Values = NDArray[np.float64]

_BATCH_ROWS = 4096
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class CentredSum:
    """Program for the `mean` query of slot 0, whose point is empty, and for `gradient` queries about centred records.

    The last D numbers of a gradient query's point are the mean m by which the records are centred.

    Attributes:
        sums: answers gradient queries over the centred records.
        mechanism: bound and noise of the sum of records.
        bias: the constant in a record's last column.
    """

    sums: GradientSum | NormalisedSum
    mechanism: ClippedSum
    bias: float

    def plan(self, query: Query) -> Plan[Batches] | Refused:
        """Return a plan for the sum of records, once, or for a gradient at a model and a mean shorter than 1."""
        if query.kind == "mean" and query.slot == 0 and not query.point.size:
            return Plan(self.mechanism.event, self.mechanism)
        columns = self.mechanism.size - 1
        if query.kind != "gradient" or query.point.ndim != 1 or query.point.size <= columns:
            return Refused(query.id, "query", "the vault's program does not support this query")
        model_query, mean = _split(query, columns)
        if not float(np.linalg.norm(mean)) <= LONGEST_MEAN + _ROUNDING:
            return Refused(query.id, "query", "the mean in this query is too long or not finite")
        return self.sums.plan(model_query)

    def compute(self, query: Query, records: Records) -> Batches:
        """Yield the records themselves, float64[n, D + 1], or the gradients over their centred copies."""
        if query.kind == "mean":
            yield from _rows(records)
            return
        model_query, mean = _split(query, self.mechanism.size - 1)
        features = Coordinates(mean, self.bias).center_records(records.features)
        yield from self.sums.compute(model_query, replace(records, features=features))


def _rows(records: Records) -> Iterator[Values]:
    for start in range(0, len(records), _BATCH_ROWS):
        yield records.features[start : start + _BATCH_ROWS]


def _split(query: Query, columns: int) -> tuple[Query, Values]:
    """Return the query at the model alone, and the mean, float64[D]."""
    end = query.point.size - columns
    return replace(query, point=query.point[:end]), query.point[end:]


@dataclass(frozen=True, slots=True)
class CentredCellSum:
    """The rows of a cell's sums, each with D + 1 further values: of records, or of gradients over centred records.

    A point is a model, float64[P], the mean m, float64[D], and 0 for a sum of records or 1 for a sum of gradients. Both
    kinds of sum have the same size, clip and charge, so the vault need not know which of them is due.

    Attributes:
        sums: computes gradients over the centred records.
        columns: the number of columns of a transformed record, D + 1.
        bias: the constant in a record's last column.
        scale: the factor that brings the longest record to the clip norm.
    """

    sums: GradientSum
    columns: int
    bias: float
    scale: float

    def compute(self, point: Values, records: Records) -> Batches:
        """Yield the rows at a point, float64[n, P + D + 1], in batches; none for a point that is not of this form."""
        size = self.sums.kernel.size
        mean, kind = point[size:-1], point[-1]
        if kind == 0:
            for rows in _rows(records):
                yield _widen(rows * self.scale, size + self.columns)
        elif kind == 1 and float(np.linalg.norm(mean)) <= LONGEST_MEAN + _ROUNDING:
            centred = replace(records, features=Coordinates(mean, self.bias).center_records(records.features))
            for rows in self.sums.compute(Query("", "gradient", 0, point[:size]), centred):
                yield _widen(rows, size + self.columns)


def _widen(rows: Values, width: int) -> Values:
    """Return rows with zeros after their values."""
    wide = np.zeros((len(rows), width))
    wide[:, : rows.shape[1]] = rows
    return wide
