"""Subjects of an audit: one device after another, each with the auditor's records, and a peer's view of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.door import Query
from sottovoce.vault import Budget, Ledger, Vault

from sottovoce_lab.auditor.shapes import Shape

AUDITED = "audited"
"""The learner's name in queries to a vault."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sighting:
    """Everything that one device released in a whole run, decoded as far as an observer can.

    Attributes:
        values: float64[n, P], its releases, in their own unit.
        points: float64[n, P], the points at which they were asked for, which the observer knows; float64[n, 0] for
            releases without a point.
        versions: number of versions in which a release was seen; more than one means that noise was drawn again.
        key: key of the device's ledger. No peer sees it, but the promise holds for anyone who knows which block a
            record is in.
    """

    values: Floats
    points: Floats
    versions: int = 1
    key: bytes = b""


Watch = Callable[[Vault, int], Sighting]
"""See Subject.watch."""


class Subject(Protocol):
    """One target, made for one ε and δ.

    The auditor chooses the records, knows the start and every public parameter, and sees a device's messages alone.
    """

    @property
    def seen(self) -> str:
        """`wire` if the learner's encoded messages are read, `release` if the vault's answers are."""
        ...

    @property
    def budget(self) -> Budget:
        """Budget of every device's ledger."""
        ...

    @property
    def delta(self) -> float:
        """δ of the claim; 0 for a pure one, whatever the budget's is."""
        ...

    @property
    def played(self) -> dict[str, Any]:
        """The public parameters of the subject, JSON-ready."""
        ...

    @property
    def shape(self) -> Shape | None:
        """The family of the claimed mechanism, so that its noise may be bounded instead of its ε; or None."""
        ...

    @property
    def threshold(self) -> float:
        """The score above which an observer says "first"; fixed before anything is seen."""
        ...

    @property
    def hit(self) -> float:
        """The probability of a score above the threshold in the first world, by the stated law."""
        ...

    @property
    def enough(self) -> int:
        """Default number of canaries, which takes a few seconds to play."""
        ...

    @property
    def canaries(self) -> int:
        """m, the number of canaries in one device; each can be told apart in its messages."""
        ...

    @property
    def grid(self) -> float | None:
        """The public grid step of observations; None if a learner's arithmetic comes after it."""
        ...

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """A vault over these records, drawing from the operating system, as on a device."""
        ...

    def watch(self, vault: Vault, count: int) -> Sighting:
        """A peer's view of a device with this vault over `count` records, from its start to its end.

        Raises:
            PrivacyError: if it was silent where it should have spoken.
        """
        ...

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """All queries that a vault over these records answers, and one beyond its budget."""
        ...

    def worlds(self) -> Mapping[str, Records]:
        """Records for which the noise must be the same; a defect that depends on the data set shows in one of them."""
        ...

    def doubts(self, records: Records, sighting: Sighting) -> dict[str, float]:
        """p-values of the stated law, by name of the test."""
        ...

    def arms(self, coins: NDArray[np.bool_]) -> Records:
        """A device's records: canary j in its first world where coins[j], else in its second."""
        ...

    def alone(self) -> "Subject | None":
        """A variant whose releases are a single number, which code may treat as a scalar; None if there is none."""
        ...

    def scores(self, sighting: Sighting) -> Floats:
        """float64[m], the evidence for the first world, by the stated law, for each canary."""
        ...


def fresh(subject: Subject, records: Records) -> Sighting:
    """A peer's view of a device that never ran before."""
    ledger = Ledger.in_memory("audited", subject.budget)
    key = ledger.numbers.key
    vault = subject.vault(records, ledger)
    try:
        return replace(subject.watch(vault, len(records)), key=key)
    finally:
        vault.close()
