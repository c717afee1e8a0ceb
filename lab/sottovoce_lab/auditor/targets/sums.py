"""Subject for clipped gradient sums with discrete Gaussian noise, over all records, secret random batches or blocks."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.calculator.calibration import Neighbouring
from sottovoce.data import Records, add_identities
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.api import Query
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault

from sottovoce_lab.auditor.laws import RECORD_SUM_SHARE, GaussianLaw, claimed_mu
from sottovoce_lab.auditor.p_values import phi
from sottovoce_lab.auditor.shapes import Gaussians, SampledGaussians
from sottovoce_lab.auditor.subject import ObservedRun, Observer
from sottovoce_lab.auditor.targets.record_sums import RecordSumLaw
from sottovoce_lab.auditor.targets.vault_observer import ask_vault

Floats = NDArray[np.float64]
CLIP = 0.5
SLOTS = 4
_KERNEL = Softmax(256, 2)
_HUGE = 100.0


def mechanism_terms() -> GradientTerms:
    """Return the terms for a few sums over all records, for testing the mechanism without a learner."""
    return GradientTerms("mechanism", SLOTS, CLIP)


@dataclass(frozen=True, slots=True)
class GaussianSums:
    """A subject whose canaries are long records along separate features, so that their gradients are orthogonal.

    A canary's record is present in its first world and absent in its second. A device with many canaries plays many
    games at once, because noise in orthogonal directions is independent.

    If the terms include a sum of records, a device releases that first, and its gradients are those of records that it
    has centred by a public mean. The canaries have no bias, so centring only multiplies them by a constant.

    Attributes:
        terms: the vault's terms.
        budget: the device's budget.
        kernel: the model.
        observer: recovers the releases from the messages; None to query the vault directly.
    """

    terms: GradientTerms
    budget: Budget
    kernel: Softmax = _KERNEL
    observer: Observer | None = None

    @property
    def observation(self) -> str:
        """The kind of observation, `release` or `wire`; see Subject.observation."""
        return "release" if self.observer is None else "wire"

    @property
    def public_parameters(self) -> dict[str, Any]:
        """The public parameters; see Subject.public_parameters."""
        terms = self.terms
        facts: dict[str, Any] = {"releases": self.slots, "sampling": terms.sampling, "clip": self.clip}
        if terms.records is not None:
            facts["record_sums"] = 1
        if terms.sampling != "full":
            facts |= {"batch": terms.batch, "of": terms.of}
        return facts

    @property
    def delta(self) -> float:
        """The δ of the claim; see Subject.delta."""
        return self.budget.delta

    @property
    def shape(self) -> Gaussians | SampledGaussians:
        """The family of the claimed mechanism; see Subject.shape."""
        if self.rate == 1:
            return Gaussians()
        return SampledGaussians(self.rate, self.terms.releases, cast(Neighbouring, self.budget.neighbouring))

    @property
    def threshold(self) -> float:
        """The score of an observation that is equally likely in both worlds; see Subject.threshold."""
        return 0.0

    @property
    def hit_probability(self) -> float:
        """An unused value, because the claim has a shape; see Subject.hit_probability."""
        return 0.5

    @property
    def default_trials(self) -> int:
        """The default number of canaries; see Subject.default_trials."""
        return 16384

    @property
    def canaries(self) -> int:
        """The number of canaries per device; see Subject.canaries."""
        return self.kernel.features - (0 if self.terms.records is None else 1)  # none is in the bias column

    @property
    def clip(self) -> float | None:
        """The clip norm C; None without clipping."""
        return self.terms.clip

    @property
    def slots(self) -> int:
        """The number of sums that a device releases."""
        return self.terms.releases * self._blocks

    @property
    def rate(self) -> float:
        """The probability that a sum includes a given record that is eligible for it."""
        return self.terms.batch / self.terms.of if self.terms.sampling == "poisson" else 1.0

    @property
    def sigma(self) -> float:
        """σ per release: C √releases / μ (Balle & Wang 2018), or the accountant's value for random batches.

        If there is a sum of records, μ² is what it leaves of the budget's μ².
        """
        epsilon, clip = self.budget.epsilon, self._length
        if epsilon is None:
            return clip
        if isinstance(shape := self.shape, SampledGaussians):
            return clip * shape.noise(epsilon, self.budget.delta)
        share = 1.0 if self.terms.records is None else 1 - RECORD_SUM_SHARE
        return clip * math.sqrt(self.terms.releases / share) / claimed_mu(self.budget)

    @property
    def grid(self) -> float | None:
        """The grid step by the public rule: the largest power of two up to σ / 2^12 and C / (2^8 √P)."""
        if self.observer is not None:
            return None
        finest = min(self.sigma / 2**12, self._length / 2**8 / math.sqrt(self._coordinate_count))
        return 2.0 ** math.floor(math.log2(finest))

    @property
    def _length(self) -> float:
        """The clip norm C; without clipping, an arbitrary length for scoring the canaries."""
        return CLIP if self.terms.clip is None else self.terms.clip

    def scalar_variant(self) -> "GaussianSums":
        """Return a subject that releases a single number, with gradients of 0; see Subject.scalar_variant."""
        return replace(self, kernel=Softmax(1, 1), terms=replace(self.terms, records=None), observer=None)

    def vault(self, records: Records, ledger: Ledger) -> Vault:
        """Return a vault over the records; see Subject.vault."""
        return build(records=records, kernel=self.kernel, terms=self.terms, ledger=ledger, noise=OperatingSystemNoise())

    def observe(self, vault: Vault, count: int) -> ObservedRun:
        """Return the observer's view of a run; see Subject.observe."""
        return self.observer(vault, count) if self.observer else ask_vault(vault, self._queries(self.slots))

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """Return the paid queries and one beyond the budget; see Subject.queries."""
        *paid, excess = self._queries(self.slots + 1)
        if self.terms.records is None:
            return paid, excess
        mean = np.zeros(self.terms.records.columns - 1)
        *paid, excess = (replace(query, point=np.append(query.point, mean)) for query in (*paid, excess))
        return [Query(self.terms.learner, "mean", 0, np.empty(0)), *paid], excess

    def worlds(self) -> Mapping[str, Records]:
        """Return the data sets; see Subject.worlds."""
        # With two classes, the gradient of a record with length r has length r/√2.
        unit = (self.clip or CLIP) * math.sqrt(2) if self.kernel.classes > 1 else 1.0
        worlds = {
            "empty": self._records([]),
            "zero": self._records([0.0]),
            "at the clip": self._records([unit]),
            "a tenth beyond": self._records([1.1 * unit]),
            "huge": self._records([_HUGE]),
            "huge, many": self._records([_HUGE] * 200),
            "huge among zeros": self._records([_HUGE] + [0.0] * 199),
            "opposed": self._records([_HUGE, -_HUGE, -_HUGE]),
        }
        if self.terms.records is None:
            return worlds
        worlds["alike, many"] = self._records([1.0] * 200)  # their mean is almost as long as a record
        for records in worlds.values():
            records.features[:, -1] = self.terms.records.bias
        return worlds

    def p_values(self, records: Records, observed_run: ObservedRun) -> dict[str, float]:
        """Return p-values for the stated law; see Subject.p_values."""
        points, centred = observed_run.points, records
        if (law := self._record_sum_law) is not None:
            points, mean = self._split(points)
            centred = replace(records, features=law.centre(records.features, mean))
        p_values = self._gradient_p_values(observed_run.values, points, centred)
        return p_values if law is None else p_values | law.p_values(records.features, observed_run.record_sum)

    def count_deviation(self, records: Records, observed_run: ObservedRun) -> float | None:
        """Return the noise in the count of records, in units of σ; None if a device releases no count."""
        law = self._record_sum_law
        return None if law is None else law.count_deviation(records.features, observed_run.record_sum)

    def _gradient_p_values(self, values: Floats, points: Floats, records: Records) -> dict[str, float]:
        parts = [self._clipped_gradients(point, records) for point in points]
        if self.terms.sampling == "full" or not any(part.any() for part in parts):
            return GaussianLaw(self.sigma).p_values(values, np.stack([part.sum(axis=0) for part in parts]))
        return self._batch_p_values(values, parts)

    def canary_records(self, coins: NDArray[np.bool_]) -> Records:
        """Return the records for the given coins; see Subject.canary_records."""
        return self._all_canaries().at(coins)

    def scores(self, observed_run: ObservedRun) -> Floats:
        """Return the canaries' scores. The auditor knows each record's block, but no batches; see Subject.scores."""
        total, canaries, variance = np.zeros(self.canaries), self._all_canaries(), self.sigma**2
        points = observed_run.points
        if (law := self._record_sum_law) is not None:
            points, mean = self._split(points)
            total += law.scores(canaries.features, observed_run.record_sum)
            canaries = replace(canaries, features=law.centre(canaries.features, mean))
        blocks = self._block_of_each(observed_run.key)
        for slot, (value, point) in enumerate(zip(observed_run.values, points, strict=True)):
            rows = self._distinct_coordinates(self._clipped_gradients(point, canaries))
            ratios = (rows @ value[: rows.shape[1]] - (rows**2).sum(axis=1) / 2) / variance
            if self.rate < 1:
                ratios = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + ratios)
            total += np.where(blocks == slot % self._blocks, ratios, 0.0)
        return total

    @property
    def _coordinate_count(self) -> int:
        """The number of coordinates in a release."""
        return self.kernel.size

    @property
    def _blocks(self) -> int:
        """The number of blocks in a pass over the records; 1 without blocks."""
        return max(1, self.terms.of // self.terms.batch) if self.terms.sampling == "blocks" else 1

    def _block_of_each(self, key: bytes) -> NDArray[np.int64]:
        """Return each canary's block, int64[m]."""
        identities = add_identities(self._all_canaries()).identities
        if self._blocks == 1 or identities is None:
            return np.zeros(self.canaries, dtype=np.int64)
        hashes = [blake2b(row.tobytes(), digest_size=4, key=key).digest() for row in identities]
        return np.array([int.from_bytes(digest, "big") * self._blocks >> 32 for digest in hashes], dtype=np.int64)

    def _batch_p_values(self, values: Floats, parts: list[Floats]) -> dict[str, float]:
        """Return p-values for sums over unknown batches of records whose contributions all lie along one direction.

        Orthogonal to that direction, releases consist only of noise. Along it, the total over all releases is noise
        plus a value between the smallest and the largest possible sum. With blocks, that value is known exactly,
        because each record is in one block per pass.
        """
        contributions = np.concatenate(parts)
        longest = contributions[int((contributions**2).sum(axis=1).argmax())]
        direction = longest / math.sqrt(float(longest @ longest))
        mirror = direction - np.eye(1, len(direction))[0]  # reflecting along it maps `direction` to the first axis
        reflected = values if not mirror.any() else values - np.outer(values @ mirror, mirror) * (2 / (mirror @ mirror))
        lengths = np.stack([part @ direction for part in parts])  # float64[slots, n]
        low, high = float(np.minimum(lengths, 0).sum()), float(np.maximum(lengths, 0).sum())
        if self.terms.sampling == "blocks":
            low = high = (low + high) / self._blocks
        spread = self.sigma * math.sqrt(len(values))
        total = float(reflected[:, 0].sum())
        total_p_value = min(1.0, 2 * min(phi((total - low) / spread), phi((high - total) / spread)))
        orthogonal = GaussianLaw(self.sigma).p_values(reflected[:, 1:], np.zeros_like(reflected[:, 1:]))
        return {**orthogonal, "place": total_p_value}

    def _distinct_coordinates(self, rows: Floats) -> Floats:
        """Return the canaries' contributions, limited to coordinates in which no two canaries overlap."""
        return rows

    def _all_canaries(self) -> Records:
        m = self.canaries
        return Records(_HUGE * np.eye(m, self.kernel.features), np.zeros(m, dtype=np.int64))

    @property
    def _record_sum_law(self) -> RecordSumLaw | None:
        records = self.terms.records
        return None if records is None else RecordSumLaw(records.bias, self.budget)

    def _split(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the points without the mean that each ends with, and the mean, float64[D]."""
        columns = self.kernel.features - 1
        return points[:, :-columns], points[0, -columns:]

    def _records(self, lengths: list[float]) -> Records:
        """Return records along the first feature."""
        features = np.zeros((len(lengths), self.kernel.features))
        features[:, 0] = lengths
        return Records(features, np.zeros(len(lengths), dtype=np.int64))

    def _queries(self, count: int) -> list[Query]:
        start = np.zeros(self.kernel.size)
        return [Query(self.terms.learner, "gradient", slot, start) for slot in range(count)]

    def _clipped_gradients(self, point: Floats, records: Records) -> Floats:
        """Return each record's clipped gradient at the point, float64[n, P]."""
        rows: Floats = self.kernel.gradients(
            point[np.newaxis], records.features[np.newaxis], records.labels[np.newaxis]
        )[0]
        if self.clip is None:
            return rows
        lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
        clipped_rows: Floats = rows * np.minimum(1.0, self.clip / np.maximum(lengths, self.clip))
        return clipped_rows
