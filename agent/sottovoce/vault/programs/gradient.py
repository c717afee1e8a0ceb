"""Full-batch sums of per-example gradients: the private half of push-sum SGD (`push-sum`, `clipd2p`).

AdaD²P (2024), Section 4: ClipD²P with the clip taken per example and every record in every step.
"""

from dataclasses import dataclass

import numpy as np

from sottovoce.data import Records
from sottovoce.door import Query, Refused
from sottovoce.kernels import Kernel
from sottovoce.vault.clipped_sum import Batches, ClippedSum
from sottovoce.vault.programs.program import Plan

_BATCH_NUMBERS = 2**17  # numbers in one batch of rows: 1 MiB, so that it stays in the cache


@dataclass(frozen=True, slots=True)
class GradientSum:
    """Answers `gradient` queries with Σ ∇ℓ(point; record).

    Attributes:
        kernel: the model.
        mechanism: bound and noise of every release.
    """

    kernel: Kernel
    mechanism: ClippedSum

    def plan(self, query: Query) -> Plan[Batches] | Refused:
        """A plan for a finite point of the model's size."""
        point = query.point
        if query.kind != "gradient" or point.shape != (self.kernel.size,) or not np.isfinite(point).all():
            return Refused(query.id, "query", "the vault's program does not answer such a query")
        return Plan(self.mechanism.event, self.mechanism)

    def compute(self, query: Query, records: Records) -> Batches:
        """Per-example gradients at the query's point, in batches of about a megabyte."""
        batch = max(1, _BATCH_NUMBERS // self.kernel.size)
        for start in range(0, len(records), batch):
            features, labels = records.features[start : start + batch], records.labels[start : start + batch]
            yield self.kernel.gradients(query.point[np.newaxis], features[np.newaxis], labels[np.newaxis])[0]
