"""A perturbed copy of each record: the private half of learning from published records.

Hegedűs & Jelasity (2017), Section 3: a node perturbs its record once and publishes the result. All later learning from
that copy is post-processing.
"""

from dataclasses import dataclass

from sottovoce.accounting.events import RecordReleased
from sottovoce.data import Records
from sottovoce.door import Query, Refused
from sottovoce.vault.programs.program import Plan
from sottovoce.vault.record_mechanism import RecordMechanism


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
