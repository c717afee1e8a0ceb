"""Audit subjects, which run devices one after another on the auditor's records and observe each one as a peer does."""

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
"""Learner name in the auditor's queries to a vault."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sighting:
    """Everything that one device released in a whole run, decoded as far as an observer can decode it.

    Attributes:
        values: the device's releases in their own unit, float64[n, P].
        points: the points at which the releases were requested, which the observer knows, float64[n, P]; float64[n, 0]
            for releases without a point.
        versions: largest number of different versions of one release; more than one means that noise was redrawn.
        key: the key of the device's ledger. Peers never see it, but the privacy promise holds even against an observer
            who knows the block of each record.
    """

    values: Floats
    points: Floats
    versions: int = 1
    key: bytes = b""


Watch = Callable[[Vault, int], Sighting]
"""See Subject.watch."""


class Subject(Protocol):
    """An audited target, built for one pair of ε and δ.

    The auditor chooses the records and knows the initial state and every public parameter, but otherwise sees only the
    device's messages.
    """

    @property
    def seen(self) -> str:
        """`wire` if the observer reads the learner's encoded messages, `release` if it reads the vault's answers."""
        ...

    @property
    def budget(self) -> Budget:
        """Budget of each device's ledger."""
        ...

    @property
    def delta(self) -> float:
        """δ of the claim; 0 for a pure claim, regardless of the budget's δ."""
        ...

    @property
    def played(self) -> dict[str, Any]:
        """Public parameters of the subject, as JSON-ready values."""
        ...

    @property
    def shape(self) -> Shape | None:
        """Family of the claimed mechanism, used to bound its noise rather than ε directly; None without a family."""
        ...

    @property
    def threshold(self) -> float:
        """Score above which an observer answers "first"; fixed before the observer sees anything."""
        ...

    @property
    def hit(self) -> float:
        """Probability of a score above the threshold in the first world, under the stated law."""
        ...

    @property
    def enough(self) -> int:
        """Default number of canaries, chosen so that the game takes a few seconds."""
        ...

    @property
    def canaries(self) -> int:
        """Number m of canaries in one device; the observer can score each of them from the device's messages."""
        ...

    @property
    def grid(self) -> float | None:
        """Public grid step of the observations; None if the observations do not lie on a known grid.

        That is the case, for example, if a learner computes with the values after they were rounded to the grid.
        """
        ...

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """Return a vault over these records whose noise comes from the operating system, as on a device."""
        ...

    def watch(self, vault: Vault, count: int) -> Sighting:
        """Run a device with this vault over `count` records from start to end, and return a peer's view of it.

        Raises:
            PrivacyError: if the device did not release a value that it should have released.
        """
        ...

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """Return all queries that a vault over these records answers, and one query that exceeds its budget."""
        ...

    def worlds(self) -> Mapping[str, Records]:
        """Return data sets, by name, for which the noise must have the same law.

        They are chosen to reveal defects that depend on the data.
        """
        ...

    def p_values(self, records: Records, sighting: Sighting) -> dict[str, float]:
        """Return p-values of the stated law, by the test's name."""
        ...

    def canary_records(self, coins: NDArray[np.bool_]) -> Records:
        """Return a device's records, with canary j in its first world if coins[j] is true, else in its second."""
        ...

    def single_number_variant(self) -> "Subject | None":
        """Return a variant whose releases are single numbers, to test code that may treat them as scalars, or None."""
        ...

    def scores(self, sighting: Sighting) -> Floats:
        """Return a score per canary, float64[m]: the evidence for its first world under the stated law."""
        ...


def watch_new_device(subject: Subject, records: Records) -> Sighting:
    """Run a device with a new ledger from start to end, and return a peer's view of it."""
    ledger = Ledger.in_memory("audited", subject.budget)
    key = ledger.numbers.key
    vault = subject.vault(records, ledger)
    try:
        return replace(subject.watch(vault, len(records)), key=key)
    finally:
        vault.close()
