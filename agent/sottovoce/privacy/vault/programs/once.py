"""One-time releases: a vector for the whole device, or a perturbed copy of each record.

Hegedűs & Jelasity (2017), Section 3: a node perturbs its record once and publishes the result. All later learning from
that copy is post-processing.
"""

from dataclasses import dataclass

import numpy as np

from sottovoce.data import Records
from sottovoce.data.products import Products
from sottovoce.kernels.profile import Profile
from sottovoce.privacy.accounting.events import RecordReleased
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.clipped_sum import Batches, ClippedSum
from sottovoce.privacy.mechanisms.record_mechanism import RecordMechanism
from sottovoce.privacy.vault.programs.program import Plan


@dataclass(frozen=True, slots=True)
class DeviceMean:
    """Program for the `mean` query of slot 0, whose point is empty: one vector, computed from all of a device's rows.

    Attributes:
        profile: computes the vector, for example the coefficients of the mean row.
        mechanism: bound and noise of the release; clips the device's vector. None if the vector is released only in
            secure sums.
    """

    profile: Profile | Products
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
        """Yield the device's vector, float64[1, P]. Without records, yield no row, which counts as 0."""
        if len(records):
            with np.errstate(over="ignore", invalid="ignore"):  # a warning would reveal something about a record
                yield self.profile.row(records.features, records.windows)[np.newaxis]


@dataclass(frozen=True, slots=True)
class RecordRelease:
    """Program that answers a `record` query with the perturbed record; the slot is its number and the point is empty.

    Attributes:
        mechanism: bound and noise of every release.
        count: number of enrolled records; public, because queries beyond it are refused.
        epsilon: charge per release; infinite if there is no noise.
    """

    mechanism: RecordMechanism
    count: int
    epsilon: float

    def plan(self, query: Query) -> Plan[Records] | Refused:
        """Return a plan that touches only the requested record."""
        if query.kind != "record" or query.point.size:
            return Refused(query.id, "query", "the vault's program does not support this query")
        if not 0 <= query.slot < self.count:
            return Refused(query.id, "record", "no record has this number")
        scheme = self.mechanism.scheme
        event = RecordReleased(query.slot, scheme.name, scheme.features, scheme.classes, self.epsilon)
        return Plan(event, self.mechanism)

    def compute(self, query: Query, records: Records) -> Records:
        """Return the requested record unchanged."""
        return records
