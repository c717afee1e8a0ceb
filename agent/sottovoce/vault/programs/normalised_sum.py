"""Gradient sums in units of their clipping threshold: the private half of moving thresholds.

The threshold is public and is part of the query. For any threshold and gradient, the norm of a unit's row is at most 1,
because the mechanism clips again at 1, exactly, on its grid.
"""

import math
from dataclasses import dataclass, replace

from sottovoce.data import Records
from sottovoce.door import Query, Refused
from sottovoce.kernels.decentralised.clipping import Rule, normalise
from sottovoce.vault.clipped_sum import CLIPS, Batches
from sottovoce.vault.programs.gradient import GradientSum
from sottovoce.vault.programs.program import Plan


@dataclass(frozen=True, slots=True)
class NormalisedSum:
    """Program for `gradient` queries whose point is the model and, as its last entry, the threshold C.

    Attributes:
        sums: computes each unit's gradient and the cost of a release; its mechanism clips at 1.
        rule: how a gradient is normalised.
    """

    sums: GradientSum
    rule: Rule

    def plan(self, query: Query) -> Plan[Batches] | Refused:
        """Return a plan for a finite point with one more entry than the model, where the last entry is positive.

        If the kernel clips at this entry, the entry must also be within CLIPS, away from the ends of a float's range.
        """
        low, high = (0.0, math.inf) if self.sums.clip is None else CLIPS
        if query.point.shape != (self.sums.kernel.size + 1,) or not low < query.point[-1] < high:
            return Refused(query.id, "query", "the vault's program does not support this query")
        return self.sums.plan(_model_query(query))

    def compute(self, query: Query, records: Records) -> Batches:
        """Yield the normalised gradients, one row per unit, in batches of about a megabyte, or the kernel's sum."""
        threshold = float(query.point[-1])
        if self.sums.clip is not None:
            yield self.sums.kernel_sum(_model_query(query), records, threshold) / threshold
            return
        for gradients in self.sums.compute(_model_query(query), records):
            yield normalise(gradients, self.rule, threshold)


def _model_query(query: Query) -> Query:
    return replace(query, point=query.point[:-1])
