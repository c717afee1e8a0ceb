"""Subject for the learner `average`, which releases one vector per device, once."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.kernels.profile import Profile
from sottovoce.privacy.api import Query
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault

from sottovoce_lab.auditor.laws import GaussianLaw, claimed_mu
from sottovoce_lab.auditor.shapes import Gaussians
from sottovoce_lab.auditor.subject import AUDITED, ObservedRun, Observer
from sottovoce_lab.auditor.targets.vault_observer import ask_vault

Floats = NDArray[np.float64]
_HUGE = 1e6
_RECORDS = 3


@dataclass(frozen=True, slots=True)
class Means:
    """A subject whose canary is a whole device with a huge mean, either present or absent.

    Attributes:
        terms: the vault's terms.
        budget: the device's budget.
        observer: recovers the releases from the messages; None to query the vault directly.
    """

    terms: MeanTerms
    budget: Budget
    observer: Observer | None = None

    shape = Gaussians()
    threshold = 0.5
    hit_probability = 0.5
    default_trials = 8192
    canaries = 1
    grid = None

    @property
    def observation(self) -> str:
        """The kind of observation, `release` or `wire`; see Subject.observation."""
        return "release" if self.observer is None else "wire"

    @property
    def public_parameters(self) -> dict[str, Any]:
        """The public parameters; see Subject.public_parameters."""
        return {"releases": 1, "clip": self.terms.profile.bound}

    @property
    def delta(self) -> float:
        """The δ of the claim; see Subject.delta."""
        return self.budget.delta

    @property
    def sigma(self) -> float:
        """σ = C / μ, by the analytic formula (Balle & Wang 2018)."""
        return self.terms.profile.bound / claimed_mu(self.budget)

    def scalar_variant(self) -> "Means":
        """Return a variant that releases single numbers; see Subject.scalar_variant."""
        profile = replace(cast(Profile, self.terms.profile), width=1)
        return replace(self, terms=replace(self.terms, profile=profile), observer=None)

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """Return a vault over the records; see Subject.vault."""
        return build(records=records, kernel=None, terms=self.terms, ledger=ledger, noise=OperatingSystemNoise())

    def observe(self, vault: Vault, count: int) -> ObservedRun:
        """Return the observer's view of a run; see Subject.observe."""
        return self.observer(vault, count) if self.observer else ask_vault(vault, [_query(0)])

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """Return the paid queries and one beyond the budget; see Subject.queries."""
        return [_query(0)], _query(1)

    def worlds(self) -> Mapping[str, Records]:
        """Return the data sets; see Subject.worlds."""
        clip = self.terms.profile.bound
        lengths = {"zero": 0.0, "at the clip": clip, "a tenth beyond": 1.1 * clip, "huge": _HUGE}
        return {"empty": self._diagonal_records(0, 0.0)} | {
            name: self._diagonal_records(_RECORDS, length) for name, length in lengths.items()
        }

    def p_values(self, records: Records, observed_run: ObservedRun) -> dict[str, float]:
        """Return p-values for the stated law; see Subject.p_values."""
        return GaussianLaw(self.sigma).p_values(observed_run.values, self._exact(records)[np.newaxis])

    def canary_records(self, coins: NDArray[np.bool_]) -> Records:
        """Return the records for the given coins; see Subject.canary_records."""
        return self._diagonal_records(_RECORDS if coins[0] else 0, _HUGE)

    def scores(self, observed_run: ObservedRun) -> Floats:
        """Return the release's position between 0 and the canary's vector; see Subject.scores."""
        target = self._exact(self._diagonal_records(_RECORDS, _HUGE))
        scores: Floats = observed_run.values @ target / (target @ target)
        return scores

    def _diagonal_records(self, count: int, length: float) -> Records:
        """Return equal records with this L2 norm along the diagonal."""
        features = np.full((count, self.terms.profile.width), length / math.sqrt(self.terms.profile.width))
        return Records(features, np.zeros(count, dtype=np.int64))

    def _exact(self, records: Records) -> Floats:
        """Return the clipped mean, float64[P]."""
        if not len(records):
            return np.zeros(self.terms.profile.width)
        mean: Floats = records.features.mean(axis=0)
        return mean * min(1.0, self.terms.profile.bound / max(math.sqrt(float(mean @ mean)), self.terms.profile.bound))


def _query(slot: int) -> Query:
    return Query(AUDITED, "mean", slot, np.empty(0))
