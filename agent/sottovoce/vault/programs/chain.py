"""Chains of steps without replacement: the private half of Jin, He & Dai (2023), Algorithm 1, at a public period.

A release is computed from one run of records that no other release of the same pass touches, so that a record pays for
one release a pass. Between two releases nothing depends on the private weights; so they are no state: the steps since
the last release are taken when the next one is asked for.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.accounting.units import Units
from sottovoce.data import Records
from sottovoce.door import Query, Refused
from sottovoce.kernels import Kernel
from sottovoce.vault.bounded_point import BoundedPoint
from sottovoce.vault.lemmas import LARGEST
from sottovoce.vault.programs.program import Plan

_BATCH_NUMBERS = 2**17  # numbers in one batch of rows: 1 MiB, so that it stays in the cache


@dataclass(frozen=True, slots=True)
class Chain:
    """Answers the `chain` query of slot s, at this device's last release and the global weights, 2P numbers.

    The answer is (w_global + w_local)/2 - η ∇f(w_global) + noise, after period - 1 local steps on batches of their own.

    Attributes:
        kernel: the model; its loss has the lemma's constants.
        mechanism: sensitivity and noise of every release.
        step_size: η.
        batch: b.
        period: R, batches in a chain.
        passes: over the records; budgeted for.
        count: how many records there are: public under replace-one.
    """

    kernel: Kernel
    mechanism: BoundedPoint
    step_size: float
    batch: int
    period: int
    passes: int
    count: int

    @property
    def chains(self) -> int:
        """Whole chains in a pass; records that are left over are not used."""
        return self.count // (self.batch * self.period)

    def plan(self, query: Query) -> Plan[NDArray[np.float64]] | Refused:
        """A plan that touches the records of one chain."""
        if query.kind != "chain" or query.point.shape != (2 * self.kernel.size,) or query.slot < 0:
            return Refused(query.id, "query", "the vault's program does not answer such a query")
        if not (np.abs(query.point) <= LARGEST).all():
            return Refused(query.id, "query", "the weights are not numbers below 2^12")
        if query.slot >= self.passes * self.chains:
            return Refused(query.id, "budget", "every pass that the privacy budget is spread over is over")
        first = query.slot % self.chains * self.batch * self.period
        touched = Units(((first, first + self.batch * self.period - 1),))
        return Plan(self.mechanism.event(touched), self.mechanism)

    def compute(self, query: Query, records: Records) -> NDArray[np.float64]:
        """The end of the chain before noise, float64[P]."""
        local, everybody = query.point[: self.kernel.size].copy(), query.point[self.kernel.size :]
        first = query.slot % self.chains * self.batch * self.period
        starts = [first + step * self.batch for step in range(self.period)]
        for start in starts[:-1]:
            local -= 2 * self.step_size * self._gradient(local, records, start)
        end: NDArray[np.float64] = (everybody + local) / 2 - self.step_size * self._gradient(
            everybody, records, starts[-1]
        )
        return end

    def _gradient(self, point: NDArray[np.float64], records: Records, start: int) -> NDArray[np.float64]:
        """The mean gradient of one batch, of records scaled into the unit ball."""
        total = np.zeros(self.kernel.size)
        rows = max(1, _BATCH_NUMBERS // self.kernel.size)
        for begin in range(start, start + self.batch, rows):
            part = slice(begin, min(begin + rows, start + self.batch))
            features, labels = _in_ball(records.features[part]), records.labels[part]
            gradients = self.kernel.gradients(point[np.newaxis], features[np.newaxis], labels[np.newaxis])[0]
            total += np.add.reduce(gradients, axis=0)
        return total / self.batch


def _in_ball(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row divided by its L2 norm where that is above 1; a row whose norm is no number becomes 0."""
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would be a message about a record
        norms = np.sqrt(np.add.reduce(np.square(np.ascontiguousarray(rows)), axis=1))
    known = np.isfinite(norms)
    scaled: NDArray[np.float64] = np.where(known[:, np.newaxis], rows, 0.0)
    return scaled / np.maximum(1.0, np.where(known, norms, 1.0))[:, np.newaxis]
