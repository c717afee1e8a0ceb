"""Subject for the mechanisms `laplace`, `laplace-copies`, `privunit` and `krr-privunit`, and the learner `golf`.

All of them publish individual records.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import InternalError
from sottovoce.privacy.api import Query
from sottovoce.privacy.perturbation import LabelledPrivUnit, Laplace, LaplaceCopies, PrivUnit, Scheme, scheme
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.records import RecordTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault
from sottovoce_papers.hegedus_2017.golf.public.machine import NAME

from sottovoce_lab.auditor.laws import LabelAndSphereLaw, Law, MaxNormLaw, SphereLaw
from sottovoce_lab.auditor.subject import ObservedRun, Observer
from sottovoce_lab.auditor.targets.vault_observer import ask_vault

Floats = NDArray[np.float64]
FEATURES = 8
CLASSES = 3
_RECORDS = 200
_NEAR = 0.9  # threshold as a fraction of ε, because events with the largest likelihood ratio shift the odds most
_RELEASES_PER_WORLD = 64  # number of releases per world in the noise game


@dataclass(frozen=True, slots=True)
class PublishedRecords:
    """A subject whose canaries are records: x in the first world and -x, the most distant record, in the second.

    Attributes:
        scheme: the record perturbation scheme.
        budget: the device's budget.
        observer: recovers the releases from the messages; None to query the vault directly.
    """

    scheme: Scheme
    budget: Budget
    observer: Observer | None = None

    @property
    def observation(self) -> str:
        """The kind of observation, `release` or `wire`; see Subject.observation."""
        return "release" if self.observer is None else "wire"

    @property
    def public_parameters(self) -> dict[str, Any]:
        """The public parameters; see Subject.public_parameters."""
        return {"releases_per_record": 1, "perturbation": self.scheme.name}

    @property
    def delta(self) -> float:
        """The δ of the claim; see Subject.delta."""
        return 0.0

    @property
    def shape(self) -> None:
        """None, because a pure ε claim needs no shape; see Subject.shape."""

    @property
    def threshold(self) -> float:
        """The score above which the observer answers "first"; see Subject.threshold."""
        return _NEAR * (self.scheme.epsilon or 0.0)

    @property
    def hit_probability(self) -> float:
        """The probability of a score above the threshold in the first world; see Subject.hit_probability."""
        return self.law.hit_probability ** (self.scheme.copies if isinstance(self.scheme, LaplaceCopies) else 1)

    @property
    def default_trials(self) -> int:
        """The default number of canaries; see Subject.default_trials."""
        return 16384

    @property
    def canaries(self) -> int:
        """The number of canaries per device; see Subject.canaries."""
        return _RECORDS

    @property
    def grid(self) -> float | None:
        """The public grid step; see Subject.grid."""
        return 2.0**self.scheme.exponent

    @property
    def law(self) -> Law:
        """The stated law at the scheme's ε. Laplace noise has scale 2/ε, or 2 · copies / ε for the paper's copies."""
        tolerance = 2.0**self.scheme.exponent * math.sqrt(self.scheme.width)
        match self.scheme:
            case Laplace():
                return MaxNormLaw(2 / self.scheme.epsilon)
            case LaplaceCopies():
                return MaxNormLaw(2 * self.scheme.copies / self.scheme.epsilon)
            case PrivUnit():
                return SphereLaw(self.scheme.cap, self.scheme.epsilon, tolerance)
            case LabelledPrivUnit():
                rest = self.scheme.epsilon - self.scheme.label.epsilon
                return LabelAndSphereLaw(self.scheme.label, SphereLaw(self.scheme.cap, rest, tolerance))
        raise InternalError(f"no law for scheme `{self.scheme.name}` with an ε: this is a bug; please report it")

    def scalar_variant(self) -> "PublishedRecords":
        """Return a subject whose records are single numbers; see Subject.scalar_variant."""
        narrow = scheme(self.scheme.name, 1, 2, self.scheme.epsilon)
        return replace(self, scheme=narrow, observer=None)

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """Return a vault over the records; see Subject.vault."""
        terms = RecordTerms(NAME, self.scheme, "declared")
        return build(records=records, kernel=None, terms=terms, ledger=ledger, noise=OperatingSystemNoise())

    def observe(self, vault: Vault, count: int) -> ObservedRun:
        """Return the observer's view of a run; see Subject.observe."""
        return self.observer(vault, count) if self.observer else self._ask(vault, count)

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """Return the paid queries and one beyond the budget; see Subject.queries."""
        *paid, excess = _queries(len(records) + 1)
        return paid, excess

    def worlds(self) -> Mapping[str, Records]:
        """Return the data sets; see Subject.worlds."""
        lengths = {"length 1": 1.0, "a tenth longer": 1.1, "huge": 1e9}
        return {
            name: self._records(np.full(_RELEASES_PER_WORLD, length)) for name, length in lengths.items()
        } | self._zero_length_records()

    def p_values(self, records: Records, observed_run: ObservedRun) -> dict[str, float]:
        """Return p-values for the stated law; see Subject.p_values."""
        return self.law.p_values(observed_run.values, self._exact(records))

    def canary_records(self, coins: NDArray[np.bool_]) -> Records:
        """Return the records for the given coins; see Subject.canary_records."""
        return self._records(np.where(coins, 1.0, -1.0))

    def scores(self, observed_run: ObservedRun) -> Floats:
        """Return the canaries' scores; see Subject.scores."""
        exact_values = (self._exact(self._records(np.full(len(observed_run.values), sign))) for sign in (1.0, -1.0))
        return self.law.score(observed_run.values, *exact_values)

    def _ask(self, vault: Vault, count: int) -> ObservedRun:
        """Return the vault's answers, with the label (the first coordinate) converted back to units of 1."""
        values = ask_vault(vault, _queries(count)).values
        if isinstance(self.scheme, LabelledPrivUnit):
            values[:, 0] *= 2.0**-self.scheme.exponent
        return ObservedRun(values, np.empty((count, 0)))

    def _zero_length_records(self) -> dict[str, Records]:
        """Return zero-length records if the law adds noise, because it must add as much to them as to others."""
        return {"zero": self._records(np.zeros(_RELEASES_PER_WORLD))} if isinstance(self.law, MaxNormLaw) else {}

    def _records(self, lengths: Floats) -> Records:
        """Return records along the first feature. With randomised response, the label also differs between worlds."""
        features = np.zeros((len(lengths), self.scheme.features))
        features[:, 0] = lengths
        changes_label = isinstance(self.scheme, LabelledPrivUnit)
        return Records(features, np.where((lengths < 0) & changes_label, 1, 0).astype(np.int64))

    def _exact(self, records: Records) -> Floats:
        """Return each record's noise-free release, float64[n, P]."""
        signs = np.sign(records.features[:, :1]) * np.eye(1, self.scheme.features)
        if isinstance(self.scheme, LabelledPrivUnit):
            return np.hstack([records.labels[:, np.newaxis].astype(np.float64), signs])
        if self.scheme.classes == 2:
            blocks = (2.0 * records.labels - 1)[:, np.newaxis]
        else:
            blocks = (records.labels[:, np.newaxis] == np.arange(self.scheme.classes)).astype(np.float64)
            if isinstance(self.scheme, LaplaceCopies):
                blocks = 2 * blocks - 1
        exact: Floats = (blocks[:, :, np.newaxis] * signs[:, np.newaxis]).reshape(len(records), -1)
        return exact


def _queries(count: int) -> list[Query]:
    return [Query(NAME, "record", slot, np.empty(0)) for slot in range(count)]
