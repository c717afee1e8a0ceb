"""Sums of gradients in units of a moving threshold: mechanism `normalised`, learner `adad2p`."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sottovoce.accounting.gaussian import gaussian_mu
from sottovoce.audit.subject import Sighting
from sottovoce.audit.targets.sums import CLIP, SLOTS, GaussianSums
from sottovoce.data import Records
from sottovoce.door import Query
from sottovoce.errors import InternalError
from sottovoce.kernels.decentralised.normalisation import Rule
from sottovoce.vault import GradientTerms, Ledger, NormalisedTerms, OperatingSystemNoise, Vault, build

Floats = NDArray[np.float64]
_BIT = 0.1
_HOSTILE = (CLIP, 1e-300, 1e3, 1e-3)  # thresholds of anybody's choice, slot by slot; each sum has sensitivity 1


@dataclass(frozen=True, slots=True)
class NormalisedSums(GaussianSums):
    """The canaries of GaussianSums under thresholds that somebody has chosen to harm them.

    Attributes:
        rule: what becomes of a gradient.
    """

    rule: Rule = "quantile"

    @property
    def sigma(self) -> float:
        """σ of one release, in units of the threshold: √slots / μ."""
        if self.budget.epsilon is None:
            raise InternalError("a sum without noise has no σ: report this")
        return math.sqrt(SLOTS) / gaussian_mu(self.budget.epsilon, self.budget.delta)

    @property
    def grid(self) -> float | None:
        """See GaussianSums.grid; the clip is 1."""
        if self.over is not None:
            return None
        numbers = self.kernel.size + (self.rule == "quantile")
        return 2.0 ** math.floor(math.log2(min(self.sigma / 2**12, 1 / 2**8 / math.sqrt(numbers))))

    def alone(self) -> "NormalisedSums":
        """See GaussianSums.alone; without a bit there is a single number."""
        return replace(self, kernel=type(self.kernel)(1, 1), over=None, rule="decay")

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """See Subject.vault."""
        terms = NormalisedTerms(GradientTerms(self.learner, SLOTS, 1.0), self.rule)
        return build(records=records, kernel=self.kernel, terms=terms, ledger=ledger, noise=OperatingSystemNoise())

    def scores(self, sighting: Sighting) -> Floats:
        """See Subject.scores: all but the bit, which canaries share."""
        along, length = np.zeros(self.canaries), np.zeros(self.canaries)
        for value, point in zip(sighting.values, sighting.points, strict=True):
            rows = self._clipped(point, self._all())[:, : self.kernel.size]
            along += rows @ value[: self.kernel.size]
            length += (rows**2).sum(axis=1)
        return along / length

    def _queries(self, count: int) -> list[Query]:
        start = np.zeros(self.kernel.size)
        return [
            Query(self.learner, "gradient", slot, np.append(start, _HOSTILE[slot % len(_HOSTILE)]))
            for slot in range(count)
        ]

    def _clipped(self, point: Floats, records: Records) -> Floats:
        """Each record's row, float64[n, numbers of a release], by the auditor's own arithmetic."""
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
