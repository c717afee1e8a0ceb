"""Subject for the mechanism `normalised` and the learner `adad2p`: gradient sums in units of a varying threshold."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.kernels.decentralised.clipping import Rule
from sottovoce.privacy.api import Query
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import NormalisedTerms
from sottovoce.privacy.vault import Ledger, OperatingSystemNoise, Vault
from typing_extensions import override

from sottovoce_lab.auditor.targets.sums import CLIP, GaussianSums

Floats = NDArray[np.float64]
_BIT = 0.1
_HOSTILE = (CLIP, 1e-300, 1e3, 1e-3)  # thresholds that an attacker might choose, per slot; each sum has sensitivity 1


@dataclass(frozen=True, slots=True)
class NormalisedSums(GaussianSums):
    """A subject with the same canaries as GaussianSums, but with thresholds chosen by an attacker.

    Attributes:
        rule: the rule by which gradients are normalised.
    """

    rule: Rule = "quantile"

    @property
    def clip(self) -> float:
        """The initial threshold C_0; the sums are in units of the current threshold."""
        return CLIP

    def scalar_variant(self) -> "NormalisedSums":
        """Return a variant that releases single numbers, with the rule `decay`, because it adds no bit; see Subject."""
        return replace(
            self,
            kernel=type(self.kernel)(1, 1),
            terms=replace(self.terms, records=None),
            observer=None,
            rule="decay",
        )

    @override
    def vault(self, records: Records, ledger: Ledger) -> Vault:
        terms = NormalisedTerms(self.terms, self.rule)
        return build(records=records, kernel=self.kernel, terms=terms, ledger=ledger, noise=OperatingSystemNoise())

    @property
    def _coordinate_count(self) -> int:
        return self.kernel.size + (self.rule == "quantile")

    def _distinct_coordinates(self, rows: Floats) -> Floats:
        """Return the rows without the bit, because all canaries share this coordinate."""
        return rows[:, : self.kernel.size]

    def _queries(self, count: int) -> list[Query]:
        start = np.zeros(self.kernel.size)
        return [
            Query(self.terms.learner, "gradient", slot, np.append(start, _HOSTILE[slot % len(_HOSTILE)]))
            for slot in range(count)
        ]

    def _clipped_gradients(self, point: Floats, records: Records) -> Floats:
        """Return each record's contribution, float64[n, numbers per release], computed by the auditor's own code."""
        model, threshold = point[:-1], float(point[-1])
        features, labels = records.features[np.newaxis], records.labels[np.newaxis]
        gradients = self.kernel.gradients(model[np.newaxis], features, labels)[0]
        lengths = np.sqrt((gradients**2).sum(axis=1, keepdims=True))
        if self.rule == "automatic":
            automatic: Floats = gradients / (lengths + 0.01)
            return automatic
        rows: Floats = gradients / np.maximum(lengths, threshold)
        if self.rule == "decay":
            return rows
        return np.hstack([rows * math.sqrt(1 - _BIT**2), np.where(lengths <= threshold, _BIT, -_BIT)])
