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
        values: float64[n, P], the device's releases, in their own unit.
        points: float64[n, P], the points at which the releases were requested, known to the observer; float64[n, 0] for
            releases without a point.
        versions: number of versions in which a release was seen; more than one means that noise was drawn again.
        key: key of the device's ledger. No peer sees the key, but the promise holds even for an observer who knows each
            record's block.
    """

    values: Floats
    points: Floats
    versions: int = 1
    key: bytes = b""


Watch = Callable[[Vault, int], Sighting]
"""See Subject.watch."""


class Subject(Protocol):
    """Audited target, built for one ε and δ.

    The auditor chooses the records, knows the start and every public parameter, and sees only a device's messages.
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
        """δ of the claim; 0 for a pure claim, whatever the budget's δ."""
        ...

    @property
    def played(self) -> dict[str, Any]:
        """Public parameters of the subject, JSON-ready."""
        ...

    @property
    def shape(self) -> Shape | None:
        """Family of the claimed mechanism, used to bound its noise instead of its ε; None without a family."""
        ...

    @property
    def threshold(self) -> float:
        """Score above which an observer answers "first"; fixed before anything is seen."""
        ...

    @property
    def hit(self) -> float:
        """Probability of a score above the threshold in the first world, by the stated law."""
        ...

    @property
    def enough(self) -> int:
        """Default number of canaries, which takes a few seconds to play."""
        ...

    @property
    def canaries(self) -> int:
        """Number m of canaries in one device; each can be distinguished in the device's messages."""
        ...

    @property
    def grid(self) -> float | None:
        """Public grid step of observations; None if a learner's arithmetic follows the rounding to the grid."""
        ...

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """Return a vault over these records that draws its noise from the operating system, as on a device."""
        ...

    def watch(self, vault: Vault, count: int) -> Sighting:
        """Return a peer's view of a device with this vault over `count` records, from its start to its end.

        Raises:
            PrivacyError: if the device was silent where it should have released something.
        """
        ...

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """Return all queries that a vault over these records answers, and one query beyond its budget."""
        ...

    def worlds(self) -> Mapping[str, Records]:
        """Return records for which the noise must be the same; a data-dependent defect shows in one of these worlds."""
        ...

    def p_values(self, records: Records, sighting: Sighting) -> dict[str, float]:
        """Return p-values of the stated law, by name of the test."""
        ...

    def canary_records(self, coins: NDArray[np.bool_]) -> Records:
        """Return a device's records: canary j in its first world if coins[j], else in its second."""
        ...

    def single_number_variant(self) -> "Subject | None":
        """Return a variant whose releases are a single number, which code may treat as a scalar; None without one."""
        ...

    def scores(self, sighting: Sighting) -> Floats:
        """Return float64[m], the evidence for the first world, by the stated law, for each canary."""
        ...


def watch_new_device(subject: Subject, records: Records) -> Sighting:
    """Return a peer's view of a device that never ran before."""
    ledger = Ledger.in_memory("audited", subject.budget)
    key = ledger.numbers.key
    vault = subject.vault(records, ledger)
    try:
        return replace(subject.watch(vault, len(records)), key=key)
    finally:
        vault.close()
