"""Chains of steps without replacement: the private half of Jin, He & Dai (2023), Algorithm 1, at a public period.

Each release is computed from a run of records that no other release of the same pass touches, so a record pays for one
release per pass. The private weights are not stored, because nothing depends on them between two releases: the steps
since the last release are computed when the next one is requested.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.plugin import BoundedPoint, Plan, Query, Records, Refused, Units, UnprovedPoint

from sottovoce_papers.jin_2023.private.lemmas import MAX_WEIGHT
from sottovoce_papers.jin_2023.private.steps import ChainSteps


@dataclass(slots=True)
class Chain:
    """Program for the `chain` query of slot s, whose point is this device's last release and the global weights.

    The point has 2P values. The answer is (w_global + w_local)/2 - η ∇f(w_global) + noise, after period - 1 local
    steps, each on a separate batch.

    Attributes:
        steps: the two kinds of step in a chain.
        mechanisms: sensitivity and noise of each slot's release; the last one also applies to all later slots.
        period: R, number of batches in a chain.
        passes: number of passes over the records that the budget covers.
        count: number of records in the first file; public under replace-one. Records in later files are not used.
    """

    steps: ChainSteps
    mechanisms: tuple[BoundedPoint | UnprovedPoint, ...]
    period: int
    passes: int
    count: int
    _local_models: tuple[NDArray[np.float64], ...] = field(default=(), repr=False)

    @property
    def chains(self) -> int:
        """Number of complete chains in a pass; any remaining records are not used."""
        return self.count // (self.steps.batch * self.period)

    def plan(self, query: Query) -> Plan[NDArray[np.float64]] | Refused:
        """Return a plan that touches one chain's records."""
        if query.kind != "chain" or query.point.shape != (2 * self.steps.kernel.size,) or query.slot < 0:
            return Refused(query.id, "query", "the vault's program does not support this query")
        if not (np.abs(query.point) <= MAX_WEIGHT).all():
            return Refused(query.id, "query", "the weights must be finite numbers between -2^12 and 2^12")
        if query.slot >= self.passes * self.chains:
            return Refused(query.id, "budget", "all passes that the privacy budget covers have been completed")
        first = self._start(query.slot)
        touched = Units(((first, first + self.steps.batch * self.period - 1),))
        mechanism = self.mechanisms[min(query.slot, len(self.mechanisms) - 1)]
        return Plan(mechanism.event(touched), mechanism)

    def compute(self, query: Query, records: Records) -> NDArray[np.float64]:
        """Return the chain's final weights before noise, float64[P]."""
        size, first, number = self.steps.kernel.size, self._start(query.slot), query.slot * self.period
        own_release, global_weights = query.point[:size], query.point[size:]
        local = own_release
        for step in range(self.period - 1):
            local = self.steps.step_locally(local, records, number + step, first + step * self.steps.batch)
        self._local_models = own_release, local
        step = self.period - 1
        return self.steps.step_globally(global_weights, local, records, number + step, first + step * self.steps.batch)

    def trace(self) -> dict[str, Any]:
        """Return the last chain's local model at its start and before its last step, for use in simulations."""
        return dict(
            zip(("local_before", "local_after"), (model.tolist() for model in self._local_models), strict=False)
        )

    def _start(self, slot: int) -> int:
        return slot % self.chains * self.steps.batch * self.period
