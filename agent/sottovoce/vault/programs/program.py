"""Interface of a computation: the facts that the vault needs before it touches a record, and the computation itself."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sottovoce.accounting.events import Event
from sottovoce.data import Records
from sottovoce.door import Query, Refused
from sottovoce.vault.mechanism import Mechanism
from sottovoce.vault.sampling import Sampling

Raw = TypeVar("Raw")


@dataclass(frozen=True, slots=True)
class Plan(Generic[Raw]):
    """Plan for the answer to a query, made before any record is read.

    Attributes:
        event: the charge, and the record that pays it.
        mechanism: bound and noise of the release.
        shared: earlier queries whose charges, if they were made, also pay for their units in this release.
        sampling: how the records to read are drawn from those that were paid for; None for all of them.
    """

    event: Event
    mechanism: Mechanism[Raw]
    shared: tuple[bytes, ...] = ()
    sampling: Sampling | None = None


class Program(Protocol[Raw]):
    """Pure computation: no noise, no sending, no access to the ledger. The vault applies the plan's mechanism."""

    def plan(self, query: Query) -> Plan[Raw] | Refused:
        """Return the plan for this query, or a refusal with its reason; no record is read for either."""
        ...

    def compute(self, query: Query, records: Records) -> Raw:
        """Return the values to privatise, computed from the records of units that were paid for."""
        ...
