"""A single vector for the whole device, released once: the private half of averaging over a fleet."""

from dataclasses import dataclass

import numpy as np

from sottovoce.data import Records
from sottovoce.door import Query, Refused
from sottovoce.kernels.profile import Profile
from sottovoce.vault.clipped_sum import Batches, ClippedSum
from sottovoce.vault.programs.program import Plan


@dataclass(frozen=True, slots=True)
class DeviceMean:
    """Program for the `mean` query of slot 0, whose point is empty: the coefficients of the device's mean row.

    Attributes:
        profile: the part of the mean that is released.
        mechanism: bound and noise of the release; clips the device's vector. None if the vector is released only in
            secure sums.
    """

    profile: Profile
    mechanism: ClippedSum | None

    def plan(self, query: Query) -> Plan[Batches] | Refused:
        """Return a plan for the only release."""
        if self.mechanism is None or query.kind != "mean" or query.point.size:
            return Refused(query.id, "query", "the vault's program does not support this query")
        if query.slot != 0:
            return Refused(query.id, "budget", "the only release that the privacy budget covers has been made")
        return Plan(self.mechanism.event, self.mechanism)

    def compute(self, query: Query, records: Records) -> Batches:
        """See `vector`."""
        return self.vector(records)

    def vector(self, records: Records) -> Batches:
        """Yield the coefficients of the mean row, float64[1, P]. Without records, yield no row, which counts as 0."""
        if len(records):
            with np.errstate(over="ignore", invalid="ignore"):  # a warning would reveal something about a record
                mean = np.add.reduce(records.features, axis=0) / len(records)
                yield self.profile.coefficients(mean)[np.newaxis]
