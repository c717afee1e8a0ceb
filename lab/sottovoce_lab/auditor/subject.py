"""Audit subjects, which run devices one after another on the auditor's records and observe each as a peer would."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.privacy.api import Query
from sottovoce.privacy.vault import Budget, Ledger, Vault

from sottovoce_lab.auditor.shapes import Shape

AUDITED = "audited"
"""The learner name used in the auditor's queries to a vault."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ObservedRun:
    """Everything that one device released in a whole run, as far as an observer can decode it.

    Attributes:
        values: the device's releases in their own unit, float64[n, P].
        points: float64[n, P], the points at which the releases were requested, which the observer knows; float64[n, 0]
            for releases without a point. If records are centred, a point ends with their mean.
        versions: the largest number of versions of the same release; more than 1 means that noise was redrawn.
        key: the key in the device's ledger. Peers never see it, but the privacy promise must hold even against an
            observer who knows every record's block.
        record_sum: the sum of records that preceded the releases, float64[D + 1]; empty if there was none.
    """

    values: Floats
    points: Floats
    versions: int = 1
    key: bytes = b""
    record_sum: Floats = field(default_factory=lambda: np.empty(0))


Observer = Callable[[Vault, int], ObservedRun]
"""See Subject.observe."""


class Subject(Protocol):
    """An audited target, built for given ε and δ.

    The auditor chooses the records and knows the initial state and every public parameter. Apart from that, it sees
    only the device's messages.
    """

    @property
    def observation(self) -> str:
        """`wire` if the observer reads the learner's encoded messages, `release` if it reads the vault's answers."""
        ...

    @property
    def budget(self) -> Budget:
        """The budget in each device's ledger."""
        ...

    @property
    def delta(self) -> float:
        """The claim's δ; 0 for a pure claim, regardless of the budget's δ."""
        ...

    @property
    def public_parameters(self) -> dict[str, Any]:
        """The subject's public parameters as JSON-ready values."""
        ...

    @property
    def shape(self) -> Shape | None:
        """The family of the claimed mechanism, for bounding its noise instead of ε directly; None if it has none."""
        ...

    @property
    def threshold(self) -> float:
        """The score above which the observer answers "first", fixed before it sees anything."""
        ...

    @property
    def hit_probability(self) -> float:
        """The probability of a score above the threshold in the first world, under the stated law."""
        ...

    @property
    def default_trials(self) -> int:
        """The default number of canaries, for which the game takes a few seconds."""
        ...

    @property
    def canaries(self) -> int:
        """The number m of canaries per device, each of which can be scored from the device's messages."""
        ...

    @property
    def grid(self) -> float | None:
        """The observations' public grid step; None if they do not lie on a known grid.

        For example, they leave the grid if a learner computes further with values that were rounded to it.
        """
        ...

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """Return a vault over these records that, like a device's vault, takes its noise from the operating system."""
        ...

    def observe(self, vault: Vault, count: int) -> ObservedRun:
        """Run a device with this vault over `count` records to the end, and return a peer's view of it.

        Raises:
            PrivacyError: if the device did not make a release that it should have made.
        """
        ...

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """Return all queries that a vault over these records answers, and one more that exceeds its budget."""
        ...

    def worlds(self) -> Mapping[str, Records]:
        """Return named data sets for which the noise must have the same law.

        They are chosen to expose defects that depend on the data.
        """
        ...

    def p_values(self, records: Records, observed_run: ObservedRun) -> dict[str, float]:
        """Return p-values for the stated law, keyed by test name."""
        ...

    def canary_records(self, coins: NDArray[np.bool_]) -> Records:
        """Return a device's records, with canary j from its first world if coins[j] is true, else from its second."""
        ...

    def scalar_variant(self) -> "Subject | None":
        """Return a variant that releases single numbers, to test code that may treat them as scalars; or None."""
        ...

    def scores(self, observed_run: ObservedRun) -> Floats:
        """Return each canary's score, float64[m], the evidence for its first world under the stated law."""
        ...


def observe_new_device(subject: Subject, records: Records) -> ObservedRun:
    """Run a device with a new ledger to the end, and return a peer's view of it."""
    ledger = Ledger.in_memory("audited", subject.budget)
    key = ledger.numbers.key
    vault = subject.vault(records, ledger)
    try:
        return replace(subject.observe(vault, len(records)), key=key)
    finally:
        vault.close()
