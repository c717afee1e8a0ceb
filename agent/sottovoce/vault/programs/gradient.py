"""Sums of clipped gradients: the private half of every learner of gradients.

The clip is taken per privacy unit. A sum is over all records, or over a batch: a random one, which the vault draws and
keeps to itself, or one of a row of public blocks, so that a record is in one release a pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.accounting.events import Event, over
from sottovoce.accounting.units import EVERY, Units
from sottovoce.data import Records
from sottovoce.door import Query, Refused
from sottovoce.kernels import Kernel
from sottovoce.vault.clipped_sum import Batches, ClippedSum
from sottovoce.vault.programs.program import Plan
from sottovoce.vault.sampling import Block, Sampling

_BATCH_NUMBERS = 2**17  # numbers in one batch of rows: 1 MiB, so that it stays in the cache


@dataclass(frozen=True, slots=True)
class Blocks:
    """Runs of places that follow one another; pass after pass.

    Attributes:
        size: records in a block.
        count: blocks in a pass.
        passes: over the records.
    """

    size: int
    count: int
    passes: int

    def at(self, slot: int) -> Block:
        """The block of a slot."""
        first = slot % self.count * self.size
        return Block(first, first + self.size - 1)


@dataclass(frozen=True, slots=True)
class GradientSum:
    """Answers `gradient` queries with Σ over units of clip(Σ over the unit's records of ∇ℓ(point; record)).

    Attributes:
        kernel: the model.
        mechanism: bound and noise of every release; it clips the contribution of a unit.
        unit: `record`, `window` or `device`.
        units: the units that may be asked about: public, whether or not there are records of them.
        event: what a release costs its units; None for what the mechanism says.
        batches: which records a release is a sum over; None for all.
    """

    kernel: Kernel
    mechanism: ClippedSum
    unit: str = "record"
    units: Units = EVERY
    event: Event | None = None
    batches: Sampling | Blocks | None = None

    def plan(self, query: Query) -> Plan[Batches] | Refused:
        """A plan for a finite point of the model's size."""
        point = query.point
        if query.kind != "gradient" or point.shape != (self.kernel.size,) or not np.isfinite(point).all():
            return Refused(query.id, "query", "the vault's program does not answer such a query")
        event = self.mechanism.event if self.event is None else self.event
        if not isinstance(self.batches, Blocks):
            return Plan(over(event, self.units), self.mechanism, sampling=self.batches)
        if not 0 <= query.slot < self.batches.count * self.batches.passes:
            return Refused(query.id, "budget", "every pass that the privacy budget is spread over is over")
        block = self.batches.at(query.slot)
        return Plan(over(event, Units(((block.first, block.last),))), self.mechanism, sampling=block)

    def compute(self, query: Query, records: Records) -> Batches:
        """One row a unit: its gradients at the query's point, summed. The rows come in batches of about a megabyte."""
        if self.unit == "record":
            yield from gradients_at(self.kernel, query.point, records)
            return
        for part in _by_unit(records):
            row = np.zeros((1, self.kernel.size))
            with np.errstate(over="ignore", invalid="ignore"):  # a warning would be a message about a record
                for gradients in gradients_at(self.kernel, query.point, part):
                    row += np.add.reduce(gradients, axis=0)
            yield row


def gradients_at(kernel: Kernel, point: NDArray[np.float64], records: Records) -> Batches:
    """One row a record: its gradient at a point. The rows come in batches of about a megabyte."""
    batch = max(1, _BATCH_NUMBERS // kernel.size)
    for start in range(0, len(records), batch):
        features, labels = records.features[start : start + batch], records.labels[start : start + batch]
        yield kernel.gradients(point[np.newaxis], features[np.newaxis], labels[np.newaxis])[0]


def _by_unit(records: Records) -> Iterator[Records]:
    """The records of each window; of the device, when there are no windows."""
    if records.windows is None:
        yield records
        return
    for window in np.unique(records.windows):
        yield records.at(np.flatnonzero(records.windows == window))
