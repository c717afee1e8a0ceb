"""Sums of gradients in units of their clipping threshold: the private half of thresholds that move.

The threshold is public, and part of the query. Whatever it is, and whatever a gradient is, a unit's row is no longer
than 1: the mechanism clips at 1 once more, exactly, on its grid.
"""

import math
from dataclasses import dataclass, replace

from sottovoce.data import Records
from sottovoce.door import Query, Refused
from sottovoce.kernels.decentralised.normalisation import Rule, normalised
from sottovoce.vault.clipped_sum import Batches
from sottovoce.vault.programs.gradient import GradientSum
from sottovoce.vault.programs.program import Plan


@dataclass(frozen=True, slots=True)
class NormalisedSum:
    """Answers `gradient` queries whose point is the model and, as its last number, the threshold C.

    Attributes:
        sums: computes each unit's gradient, and says what a release costs; its mechanism clips at 1.
        rule: what becomes of a gradient.
    """

    sums: GradientSum
    rule: Rule

    def plan(self, query: Query) -> Plan[Batches] | Refused:
        """A plan for a finite point of one number more than the model has, the last one positive."""
        if query.point.shape != (self.sums.kernel.size + 1,) or not 0 < query.point[-1] < math.inf:
            return Refused(query.id, "query", "the vault's program does not answer such a query")
        return self.sums.plan(_at_model(query))

    def compute(self, query: Query, records: Records) -> Batches:
        """One row a unit, in batches of about a megabyte."""
        threshold = float(query.point[-1])
        for gradients in self.sums.compute(_at_model(query), records):
            yield normalised(gradients, self.rule, threshold)


def _at_model(query: Query) -> Query:
    return replace(query, point=query.point[:-1])
