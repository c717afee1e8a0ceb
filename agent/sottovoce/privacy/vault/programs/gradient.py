"""Sums of clipped gradients: the private half of every gradient learner.

Clipping is per privacy unit. A sum runs over all records or over a batch. A batch is either a random sample, which the
vault draws and keeps secret, or a block of record numbers (privacy/vault/numbering.py), so each record is in one
release per pass.

Under a moving threshold, sums are in units of the threshold, which is public and part of the query. For any threshold
and gradient, the norm of a unit's row is at most 1, because the mechanism clips again at 1, exactly, on its grid.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sottovoce.data import Records
from sottovoce.kernels import Kernel, per_example_gradients
from sottovoce.kernels.decentralised.clipping import Rule, normalise
from sottovoce.privacy.accounting.events import Event, with_units
from sottovoce.privacy.accounting.units import EVERY, Units
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.clipped_sum import CLIPS, Batches, ClippedSum
from sottovoce.privacy.mechanisms.sampling import Sampling
from sottovoce.privacy.vault.programs.program import Plan


@dataclass(frozen=True, slots=True)
class Blocks:
    """Consecutive runs of record numbers, identical in every pass.

    Attributes:
        edges: start of each block in a pass, followed by the end of the last block.
        passes: number of passes over the records.
    """

    edges: tuple[int, ...]
    passes: int

    @property
    def release_count(self) -> int:
        """Number of releases in all passes."""
        return (len(self.edges) - 1) * self.passes

    def get_units(self, slot: int) -> Units:
        """Return the record numbers in a slot's block."""
        block = slot % (len(self.edges) - 1)
        return Units(((self.edges[block], self.edges[block + 1] - 1),))


@dataclass(frozen=True, slots=True)
class GradientSum:
    """Program for `gradient` queries: Σ over units of clip(Σ over the unit's records of ∇ℓ(point; record)).

    Attributes:
        kernel: the model.
        mechanism: bound and noise of every release; clips each unit's contribution. None if gradients are released
            only in secure sums.
        unit: `record`, `window` or `device`.
        units: the units that may be queried; public, whether or not they have any records.
        event: cost of a release to its units; None to use the mechanism's cost.
        batches: selects the records summed in a release; None for all records.
        clip: C, if the kernel clips and sums; None if the mechanism does.
    """

    kernel: Kernel
    mechanism: ClippedSum | None
    unit: str = "record"
    units: Units = EVERY
    event: Event | None = None
    batches: Sampling | Blocks | None = None
    clip: float | None = None

    def plan(self, query: Query) -> Plan[Batches] | Refused:
        """Return a plan if the point is finite and has the model's size."""
        point = query.point
        if query.kind != "gradient":
            return Refused(query.id, "query", f"the terms have no quantity {query.kind!r}; they have 'gradient'")
        if self.mechanism is None or point.shape != (self.kernel.size,) or not np.isfinite(point).all():
            return Refused(query.id, "query", "the vault's program does not support this query")
        event = self.mechanism.event if self.event is None else self.event
        if not isinstance(self.batches, Blocks):
            return Plan(with_units(event, self.units), self.mechanism, sampling=self.batches)
        if not 0 <= query.slot < self.batches.release_count:
            return Refused(query.id, "budget", "all passes that the privacy budget covers have been completed")
        return Plan(with_units(event, self.batches.get_units(query.slot)), self.mechanism)

    def compute(self, query: Query, records: Records) -> Batches:
        """Yield each unit's summed gradients at the query's point, one row per unit, in batches of about a megabyte.

        If the kernel clips and sums, yield its sum as a single row instead.
        """
        if self.clip is not None:
            yield self.kernel_sum(query, records, self.clip)
        elif self.unit == "record":
            yield from per_example_gradients(self.kernel, query.point, records.features, records.labels)
        else:
            for part in _by_unit(records, self.unit):
                yield self.kernel_sum(query, part, math.inf)

    def kernel_sum(self, query: Query, records: Records, clip: float) -> NDArray[np.float64]:
        """Return the kernel's sum of clipped gradients, as a row: float64[1, P]."""
        return self.kernel.clipped_gradient_sum(query.point, records.features, records.labels, clip)[np.newaxis]


def _by_unit(records: Records, unit: str) -> Iterator[Records]:
    """Yield the records of each window, or all records if the unit is the device, skipping units without records."""
    if unit == "device" or records.windows is None:
        if len(records):
            yield records
        return
    for window in np.unique(records.windows):
        yield records.at(np.flatnonzero(records.windows == window))


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

        If the kernel clips at this entry, the entry must also lie within CLIPS, well inside the range of a float.
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
