"""Program for the gradients of a batch, which a paper clips or noises in its own way."""

import math
from dataclasses import dataclass

import numpy as np
from sottovoce.data import Records
from sottovoce.kernels import Kernel, per_example_gradients
from sottovoce.privacy.accounting.events import UnprovedRelease
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.clipped_sum import Batches
from sottovoce.privacy.mechanisms.sampling import Sampling
from sottovoce.privacy.vault.programs.program import Plan

from sottovoce_lab.published.gaussian import PublishedGaussian


@dataclass(frozen=True, slots=True)
class PublishedSum:
    """Program for `gradient` queries: the gradients of a batch at a point.

    Attributes:
        kernel: the model.
        mechanism: clip and noise of every release.
        name: the name under which a release is charged.
        sampling: how a batch is sampled; None for all records.
    """

    kernel: Kernel
    mechanism: PublishedGaussian
    name: str
    sampling: Sampling | None

    def plan(self, query: Query) -> Plan[Batches] | Refused:
        """Return a plan if the point is finite and has the model's size."""
        if query.kind != "gradient" or query.point.shape != (self.kernel.size,) or not np.isfinite(query.point).all():
            return Refused(query.id, "query", "the vault's program does not support this query")
        return Plan(UnprovedRelease(self.name), self.mechanism, sampling=self.sampling)

    def compute(self, query: Query, records: Records) -> Batches:
        """Return an iterator over gradient rows, in batches of about a megabyte.

        If the kernel computes sums in a graph and examples are not clipped, the only row is the sum of all gradients.
        """
        if self.kernel.sum_error is not None and not self.mechanism.clips_examples:
            total = self.kernel.clipped_gradient_sum(query.point, records.features, records.labels, math.inf)
            return iter([total[np.newaxis]])
        return per_example_gradients(self.kernel, query.point, records.features, records.labels)
