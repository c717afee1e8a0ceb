"""Queries to a vault, the answers, and privacy statements."""

import hashlib
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Status(StrEnum):
    """Status of a guarantee's proof."""

    PROVED = "proved"
    NOT_PROVED = "not proved"
    AS_PUBLISHED = "as-published"
    REFUTED = "refuted"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class PrivacyStatement:
    """The guarantee for a release and for the run that it belongs to.

    Attributes:
        unit: the privacy unit, for example `record`.
        neighbouring: `add-remove` or `replace-one`.
        mechanism: description of the mechanism and its parameters.
        composition: rule by which releases add up to `epsilon`.
        epsilon: total ε of everything that the budget allows; None if there is no guarantee.
        delta: total δ of everything that the budget allows.
        threat_model: the adversary's view.
        status: proved, not proved, as-published, refuted, or none.
        reason: the reason for the status, with a reference to the relevant section or page.
        epsilon_alone: ε at the same δ if all other devices collude; None if ε does not depend on them, or if there is
            no ε.
    """

    unit: str
    neighbouring: str
    mechanism: str
    composition: str
    epsilon: float | None
    delta: float | None
    threat_model: str
    status: Status
    reason: str
    epsilon_alone: float | None = None

    def without_proof(self, reason: str) -> "PrivacyStatement":
        """Return the statement, which this reason keeps from being proved; unchanged if the reason is empty."""
        if not reason or self.status is not Status.PROVED:
            return self
        return replace(self, status=Status.NOT_PROVED, reason=reason)

    def as_dict(self) -> dict[str, str | float | None]:
        """Return the statement as a JSON-ready dictionary."""
        fields = {**asdict(self), "status": self.status.value}
        if self.epsilon_alone is None:
            del fields["epsilon_alone"]
        return fields


@dataclass(frozen=True, slots=True)
class Query:
    """A query to the vault, which contains only public values and may therefore cross a process boundary.

    Attributes:
        learner: name of the learner that sends the query.
        kind: kind of release; `gradient` is a sum of clipped per-example gradients, `record` one perturbed record.
        slot: position in the learner's public schedule, or the record index, from 0.
        point: float64[P], the already public point at which the gradient is computed; empty for a record.
    """

    learner: str
    kind: str
    slot: int
    point: NDArray[np.float64]

    @property
    def id(self) -> bytes:
        """Return the SHA-256 digest of the learner, kind and slot.

        Queries with equal ids get the same stored bytes, regardless of the point.
        """
        return hashlib.sha256(f"sottovoce/query/v1|{self.learner}|{self.kind}|{self.slot}".encode()).digest()


class Release(Protocol):
    """A privatised array that has been charged to the budget; only the vault can create one.

    The released quantity is `value * step`, where `value` is int64[P] on the public grid with step `step`, a power of
    two.
    """

    @property
    def query_id(self) -> bytes:
        """Return the id of the query that this release answers."""
        ...

    @property
    def value(self) -> NDArray[np.int64]:
        """Return the grid coordinates, int64[P]."""
        ...

    @property
    def step(self) -> float:
        """Return the grid step, a power of two."""
        ...

    @property
    def statement(self) -> PrivacyStatement:
        """Return the guarantee for the whole run."""
        ...

    @property
    def simulated(self) -> bool:
        """Return whether the noise came from a seeded stream; the wire refuses such a release."""
        ...

    @property
    def units(self) -> int:
        """Return the number of privacy units charged, whether or not they contain records."""
        ...


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal by the vault, for a reason that does not depend on the records.

    Attributes:
        query_id: id of the refused query.
        reason: a stable keyword: `budget` if the budget is too small, `query` if the query is invalid, `record` if
            the record does not exist, `terms` if the query was charged or answered under other terms, `calendar` if no
            window has ended yet, `task` if the task has ended, its owner has withdrawn, or releases are paused.
        explanation: the reason in one sentence.
    """

    query_id: bytes
    reason: str
    explanation: str


Answer = Release | Refused


@dataclass(frozen=True, slots=True)
class CellQuery:
    """A query to the vault for one step of a secure sum; it may cross a process boundary.

    Attributes:
        learner: name of the learner that sends the query.
        payload: an encoded question from sottovoce.privacy.secure_sum.steps.
    """

    learner: str
    payload: bytes

    @property
    def id(self) -> bytes:
        """Return the SHA-256 digest of the learner and the question."""
        name = self.learner.encode()
        return hashlib.sha256(b"sottovoce/cell-query/v1|%d|%b%b" % (len(name), name, self.payload)).digest()


@dataclass(frozen=True, slots=True)
class CellAnswer:
    """The answer from a member's vault in a secure sum; the whole answer is public.

    Attributes:
        query_id: id of the query.
        payload: an encoded answer from sottovoce.privacy.secure_sum.steps.
        simulated: whether secrets and noise came from a seeded stream; the wire refuses such an answer.
    """

    query_id: bytes
    payload: bytes
    simulated: bool
