"""Gradients for each visit of a model on a random walk: the private half of gradient perturbation.

See Hegedűs & Jelasity (2017). The regulariser is public, so a visit requests only the gradient of the loss, summed over
all records.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.plugin import Batches, Plan, PureSum, Query, Records, Refused, Slope, descents, targets

_BATCH_NUMBERS = 2**17  # values in one batch of rows: 1 MiB, which fits in the cache


@dataclass(frozen=True, slots=True)
class VisitGradient:
    """Program for the `gradient` query of slot r, counted from 0: minus Σ of the loss (sub)gradients at its point.

    A record (x, y) adds slope(y⁽ᵏ⁾ w_k'x) · y⁽ᵏ⁾x to copy k, where x is scaled to an L1 norm of 1.

    Attributes:
        slope: minus the derivative of the loss; see kernels.gossip_rules.
        classes: number of classes; labels are 0 … classes - 1.
        visits: the mechanism for each permitted visit, in order.
        count: number of records; public under replace-one.
    """

    slope: Slope
    classes: int
    visits: tuple[PureSum, ...]
    count: int

    def plan(self, query: Query) -> Plan[Batches] | Refused:
        """Return a plan for a scheduled visit with a finite model of the right size."""
        if query.kind != "gradient" or query.slot < 0:
            return Refused(query.id, "query", "the vault's program does not support this query")
        if query.slot >= len(self.visits):
            return Refused(query.id, "budget", "all visits that the privacy budget covers have been made")
        mechanism = self.visits[query.slot]
        if query.point.shape != (mechanism.copies * mechanism.features,) or not np.isfinite(query.point).all():
            return Refused(query.id, "query", "the vault's program does not support this query")
        if self.count == 0:
            return Refused(query.id, "record", "this device has no records to learn from")
        return Plan(mechanism.event, mechanism)

    def compute(self, query: Query, records: Records) -> Batches:
        """Yield each record's contribution at the query's point, in batches of about a megabyte."""
        mechanism = self.visits[query.slot]
        weights = query.point.reshape(1, mechanism.copies, mechanism.features)
        batch = max(1, _BATCH_NUMBERS // query.point.size)
        for start in range(0, len(records), batch):
            features, labels = records.features[start : start + batch], records.labels[start : start + batch]
            copies = targets(labels, self.classes)[:, :, np.newaxis] * _scale_rows(features)[:, np.newaxis]
            with np.errstate(over="ignore", invalid="ignore"):  # a warning would reveal something about a record
                contributions = descents(weights, copies[np.newaxis], self.slope)[0]
            yield contributions.reshape(len(labels), query.point.size)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _scale_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale each row to an L1 norm of 1; a row whose norm is 0 or not finite becomes 0."""
    rows = np.ascontiguousarray(rows)  # ensures that the values of each row are summed in the same order
    lengths = np.add.reduce(np.abs(rows), axis=1)
    is_scalable = np.isfinite(lengths) & (lengths > 0)
    scaled: NDArray[np.float64] = rows / np.where(is_scalable, lengths, 1.0)[:, np.newaxis]
    scaled[~is_scalable] = 0.0
    return scaled
