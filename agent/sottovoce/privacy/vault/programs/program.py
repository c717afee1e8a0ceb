"""Interface for a computation on private records, and the plan that the vault needs before it reads any of them."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sottovoce.data import Records
from sottovoce.privacy.accounting.events import Event
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.mechanism import Mechanism
from sottovoce.privacy.mechanisms.sampling import Sampling

Raw = TypeVar("Raw")


@dataclass(frozen=True, slots=True)
class Plan(Generic[Raw]):
    """Plan for answering a query, made before any record is read.

    Attributes:
        event: the charge, and the units that pay it.
        mechanism: bound and noise of the release.
        sampling: how the records to read are sampled from those that were paid for; None to read all of them.
    """

    event: Event
    mechanism: Mechanism[Raw]
    sampling: Sampling | None = None


class Program(Protocol[Raw]):
    """Pure computation without access to noise, network or ledger. The vault applies the plan's mechanism."""

    def plan(self, query: Query) -> Plan[Raw] | Refused:
        """Return the plan for this query, or a refusal with a reason, without reading any record."""
        ...

    def compute(self, query: Query, records: Records) -> Raw:
        """Return the values to privatise, computed from the records of the units that were paid for."""
        ...
