"""Queries to a vault, and its answers."""

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.door.statement import PrivacyStatement


@dataclass(frozen=True, slots=True)
class Query:
    """A question to the vault, made of public values only, so that it may cross a process boundary.

    Attributes:
        learner: the name of the asking learner.
        kind: kind of release; `gradient` is a sum of clipped per-example gradients, `record` one perturbed record.
        slot: the position in the learner's public schedule, or the record's number, from 0.
        point: float64[P], already public: where the gradient is taken; empty for a record.
    """

    learner: str
    kind: str
    slot: int
    point: NDArray[np.float64]

    @property
    def id(self) -> bytes:
        """SHA-256 over learner, kind and slot. Queries with equal ids get equal stored bytes, whatever the point."""
        return hashlib.sha256(f"sottovoce/query/v1|{self.learner}|{self.kind}|{self.slot}".encode()).digest()


class Release(Protocol):
    """A privatised array that has been charged. Only the vault can build one.

    `value * step` is the released quantity: `value` is int64[P] on the public grid of step `step`, a power of two.
    """

    @property
    def query_id(self) -> bytes:
        """Id of the query that this release answers."""
        ...

    @property
    def value(self) -> NDArray[np.int64]:
        """Grid coordinates, int64[P]."""
        ...

    @property
    def step(self) -> float:
        """The grid step, a power of two."""
        ...

    @property
    def statement(self) -> PrivacyStatement:
        """The guarantee of the whole run."""
        ...

    @property
    def simulated(self) -> bool:
        """Whether the noise came from a seeded stream; the wire refuses such a release."""
        ...

    @property
    def units(self) -> int:
        """Number of privacy units charged, whether or not they contain records."""
        ...


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal by the vault, for a reason that does not depend on the records.

    Attributes:
        query_id: id of the refused query.
        reason: a stable word: `budget`, `query` for one that makes no sense, `record` for one that does not
            exist, `gone` for one that is no longer there, `terms` for one that was answered under other terms,
            `calendar` if no window has ended yet, `task` if the task has ended or its owner has withdrawn.
        explanation: the reason in one sentence.
    """

    query_id: bytes
    reason: str
    explanation: str


Answer = Release | Refused


@dataclass(frozen=True, slots=True)
class CellQuery:
    """A question to the vault for a step of a secure sum; it may cross a process boundary.

    Attributes:
        learner: the name of the asking learner.
        said: a question of sottovoce.secure_sum.steps, encoded.
    """

    learner: str
    said: bytes

    @property
    def id(self) -> bytes:
        """SHA-256 over learner and question."""
        name = self.learner.encode()
        return hashlib.sha256(b"sottovoce/cell-query/v1|%d|%b%b" % (len(name), name, self.said)).digest()


@dataclass(frozen=True, slots=True)
class CellAnswer:
    """The answer of a member's vault in a secure sum; all of it is public.

    Attributes:
        query_id: id of the question.
        said: an answer of sottovoce.secure_sum.steps, encoded.
        simulated: whether secrets and noise came from a seeded stream; the wire refuses such an answer.
    """

    query_id: bytes
    said: bytes
    simulated: bool
