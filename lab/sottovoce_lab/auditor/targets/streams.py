"""Subject for the mechanism `stream`, which publishes window totals indefinitely."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.privacy.api import Query
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.streams import StreamTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault

from sottovoce_lab.auditor.laws import GaussianLaw, claimed_mu
from sottovoce_lab.auditor.shapes import Gaussians
from sottovoce_lab.auditor.subject import AUDITED, ObservedRun
from sottovoce_lab.auditor.targets.vault_observer import ask_vault

Floats = NDArray[np.float64]
_CLIP = 20.0
_HUGE = 1e6
_BAND, _BITS = 8, 8
_WEIGHTS = tuple(math.floor(math.comb(2 * lag, lag) / 4**lag * 2**_BITS) for lag in range(_BAND))
_CANARIES = 32
_WINDOWS = _CANARIES + _BAND


@dataclass(frozen=True, slots=True)
class Streams:
    """A subject whose canaries are windows, either present or absent, each with a huge total in its own coordinate.

    Attributes:
        budget: the device's budget.
        size: the number of coordinates in a total.
    """

    budget: Budget
    size: int = _CANARIES

    observation = "release"
    shape = Gaussians()
    threshold = 0.5
    hit_probability = 0.5
    default_trials = 2048
    canaries = _CANARIES

    @property
    def public_parameters(self) -> dict[str, Any]:
        """The public parameters; see Subject.public_parameters."""
        return {"releases": _WINDOWS, "band": _BAND, "clip": _CLIP}

    @property
    def delta(self) -> float:
        """The δ of the claim; see Subject.delta."""
        return self.budget.delta

    @property
    def grid(self) -> float:
        """The grid step: the largest power of two up to clip / (2^8 √P), multiplied by the weights' unit."""
        return math.ldexp(1.0, math.floor(math.log2(_CLIP / (2**8 * math.sqrt(self.size)))) - _BITS)

    @property
    def sigma(self) -> float:
        """σ: the clip norm times the weights' L2 norm, divided by μ.

        All releases that include a window count as one release.
        """
        norm = math.ldexp(math.sqrt(sum(weight * weight for weight in _WEIGHTS)), -_BITS)
        return _CLIP * norm / claimed_mu(self.budget)

    def scalar_variant(self) -> "Streams":
        """Return a variant that releases single numbers; see Subject.scalar_variant."""
        return replace(self, size=1)

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """Return a vault over the records; see Subject.vault."""
        terms = StreamTerms(self.size, _CLIP, _BAND, (0, _WINDOWS - 1))
        return build(records=records, kernel=None, terms=terms, ledger=ledger, noise=OperatingSystemNoise())

    def observe(self, vault: Vault, count: int) -> ObservedRun:
        """Return the observer's view of a run; see Subject.observe."""
        return ask_vault(vault, self._queries())

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """Return the paid queries and one for a window outside the declared range; see Subject.queries."""
        return self._queries(), Query(AUDITED, "total", _WINDOWS, np.empty(0))

    def worlds(self) -> Mapping[str, Records]:
        """Return the data sets; see Subject.worlds."""
        return {
            "empty": self._daily_records([], []),
            "at the clip": self._daily_records([3], [_CLIP]),
            "huge": self._daily_records([3, 3, 4, 9], [_HUGE, _HUGE, -_HUGE, _HUGE]),
            "small": self._daily_records(list(range(_WINDOWS)), [0.01] * _WINDOWS),
        }

    def p_values(self, records: Records, observed_run: ObservedRun) -> dict[str, float]:
        """Return p-values for the stated law; see Subject.p_values."""
        return GaussianLaw(self.sigma).p_values(observed_run.values, self._exact(records))

    def canary_records(self, coins: NDArray[np.bool_]) -> Records:
        """Return the records for the given coins; see Subject.canary_records."""
        days = np.flatnonzero(coins)
        return Records(_HUGE * np.eye(self.size)[days], np.zeros(len(days), dtype=np.int64), days)

    def scores(self, observed_run: ObservedRun) -> Floats:
        """Return the weighted sum of all observations of each window; see Subject.scores."""
        lags = np.array(_WEIGHTS) / 2**_BITS
        weighted_sums = [observed_run.values[day : day + _BAND, day] @ lags for day in range(_CANARIES)]
        scores: Floats = np.array(weighted_sums) / (_CLIP * (lags @ lags))
        return scores

    def _daily_records(self, days: list[int], totals: list[float]) -> Records:
        features = np.zeros((len(days), self.size))
        features[:, 0] = totals
        return Records(features, np.zeros(len(days), dtype=np.int64), np.array(days, dtype=np.int64))

    def _exact(self, records: Records) -> Floats:
        """Return each window's weighted sum of clipped totals, float64[windows, P]."""
        totals = np.zeros((_WINDOWS, self.size))
        if records.windows is not None:
            np.add.at(totals, records.windows, records.features)
        lengths = np.sqrt((totals**2).sum(axis=1, keepdims=True))
        totals *= np.minimum(1.0, _CLIP / np.maximum(lengths, _CLIP))
        exact = np.zeros_like(totals)
        for lag, weight in enumerate(_WEIGHTS):
            exact[lag:] += weight / 2**_BITS * totals[: _WINDOWS - lag]
        return exact

    def _queries(self) -> list[Query]:
        return [Query(AUDITED, "total", day, np.empty(0)) for day in range(_WINDOWS)]
