"""Kernels that clip and sum: even with their maximum error, neighbours' sums differ by at most the charge."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import DataError
from sottovoce.kernels import MAX_SUMMED
from sottovoce.kernels.per_example import PerExample
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.clipped_sum import DiscreteGaussian, calibrate
from sottovoce.privacy.mechanisms.sampled_sum import calibrate_sampled
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms, NormalisedTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce.privacy.vault.programs.gradient import GradientSum

Floats = NDArray[np.float64]
CLIP, ERROR = 0.7, 2.0**-12


@dataclass(frozen=True, slots=True)
class WorstCaseKernel(PerExample):
    """Softmax regression whose sums have the maximum stated error, which depends on the number of records."""

    features: int
    classes: int

    @property
    def _exact(self) -> Softmax:
        return Softmax(self.features, self.classes)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._exact.shapes

    @property
    def sum_error(self) -> float:  # type: ignore[override]
        return ERROR

    def initial(self, seed: int) -> Floats:
        return self._exact.initial(seed)

    def predict(self, parameters: Floats, features: Floats) -> NDArray[np.int64]:
        return self._exact.predict(parameters, features)

    def loss(self, parameters: Floats, features: Floats, labels: NDArray[np.int64]) -> Floats:
        return self._exact.loss(parameters, features, labels)

    def gradients(self, parameters: Floats, features: Floats, labels: NDArray[np.int64]) -> Floats:
        return self._exact.gradients(parameters, features, labels)

    def clipped_gradient_sum(
        self, parameters: Floats, features: Floats, labels: NDArray[np.int64], clip: float
    ) -> Floats:
        total = self._exact.clipped_gradient_sum(parameters, features, labels, clip)
        wrong = np.random.default_rng(len(labels)).normal(size=self.size)
        return total + wrong / np.linalg.norm(wrong) * ERROR * clip if np.isfinite(clip) else total


def release_sum(records: Records, terms: GradientTerms | NormalisedTerms, point: Floats) -> NDArray[np.int64]:
    """The sum in grid units, without noise."""
    ledger = Ledger.in_memory("meter-17", Budget(None, 1e-5, "record", "add-remove"))
    kernel = WorstCaseKernel(records.features.shape[1], 3)
    vault = build(records=records, kernel=kernel, terms=terms, ledger=ledger, noise=SeededNoise(1))
    answer = vault.answer(Query("clipd2p", "gradient", 0, point))
    vault.close()
    assert not isinstance(answer, Refused)
    return answer.value


@given(features=st.integers(1, 40), count=st.integers(1, 60), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_neighbouring_sums_differ_by_at_most_the_charge(features: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, point = WorstCaseKernel(features, 3), rng.normal(size=features * 3)
    records = Records(rng.normal(size=(count, features)) * 10, rng.integers(0, 3, count))
    rest = Records(records.features[1:], records.labels[1:])
    mechanism = calibrate(
        clip=CLIP, size=kernel.size, releases=3, epsilon=1.0, delta=1e-5, neighbouring="add-remove", sum_error=ERROR
    )
    assert isinstance(mechanism, DiscreteGaussian)
    program = GradientSum(kernel, mechanism, clip=CLIP)
    units = [
        sum(np.trunc(row[0] / mechanism.step) for row in program.compute(Query("x", "gradient", 0, point), held))
        for held in (records, rest)
    ]
    difference = np.asarray(units[0] - units[1])
    assert (difference**2).sum() <= mechanism.sensitivity_squared
    # The charge exceeds the clip by at most 0.2 %, plus the rounding of a coarse grid.
    assert mechanism.sensitivity_squared <= (1.002 * CLIP / mechanism.step + np.sqrt(kernel.size) + 2) ** 2


def test_the_vault_releases_the_kernel_s_own_sum() -> None:
    rng = np.random.default_rng(3)
    records, point = Records(rng.normal(size=(50, 4)), rng.integers(0, 3, 50)), rng.normal(size=12)
    kernel_sum = WorstCaseKernel(4, 3).clipped_gradient_sum(point, records.features, records.labels, CLIP)
    step = 2.0 ** (int(np.floor(np.log2(CLIP))) - 24)
    np.testing.assert_array_equal(
        release_sum(records, GradientTerms("clipd2p", 1, CLIP), point), np.trunc(kernel_sum / step)
    )
    # Without a threshold, nothing is clipped.
    scaled = records.features * 100
    unclipped_sum = Softmax(4, 3).clipped_gradient_sum(point, scaled, records.labels, np.inf)
    unclipped = release_sum(Records(scaled, records.labels), GradientTerms("push-sum", 1, None), point)
    np.testing.assert_array_equal(unclipped, np.trunc(unclipped_sum * 2.0**30))
    # With a varying threshold, the sum is in units of the threshold.
    halved = release_sum(records, NormalisedTerms(GradientTerms("clipd2p", 1, 1.0), "decay"), np.append(point, CLIP))
    np.testing.assert_array_equal(halved, np.trunc(kernel_sum / CLIP / 2.0**-24))


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1e-300, 1e300, np.inf, np.nan])
def test_thresholds_beyond_float_precision_are_refused(threshold: float) -> None:
    records = Records(np.ones((2, 4)), np.array([0, 1]))
    ledger = Ledger.in_memory("meter-17", Budget(None, 1e-5, "record", "add-remove"))
    terms = NormalisedTerms(GradientTerms("clipd2p", 1, 1.0), "decay")
    vault = build(records=records, kernel=WorstCaseKernel(4, 3), terms=terms, ledger=ledger, noise=SeededNoise(1))
    answer = vault.answer(Query("clipd2p", "gradient", 0, np.append(np.zeros(12), threshold)))
    vault.close()
    assert isinstance(answer, Refused)


def test_more_records_than_the_error_bound_covers_are_refused() -> None:
    records = Records(np.zeros((MAX_SUMMED + 1, 1)), np.zeros(MAX_SUMMED + 1, dtype=np.int64))
    ledger = Ledger.in_memory("meter-17", Budget(None, 1e-5, "record", "add-remove"))
    with pytest.raises(DataError, match="524288 records"):
        build(
            records=records,
            kernel=WorstCaseKernel(1, 3),
            terms=GradientTerms("clipd2p", 1, CLIP),
            ledger=ledger,
            noise=SeededNoise(1),
        )


def test_a_sampled_sum_s_charge_includes_the_error() -> None:
    law = {"clip": CLIP, "size": 400, "releases": 10, "epsilon": 1.0, "delta": 1e-5}
    rate = {"neighbouring": "add-remove", "batch": 8, "of": 64}
    mechanism, event = calibrate_sampled(**law, **rate, sum_error=ERROR)  # type: ignore[arg-type]
    difference = (1 + 2 * ERROR) * CLIP / mechanism.step + np.sqrt(400)
    assert mechanism.is_presummed
    assert mechanism.clip_squared >= difference**2
    assert event.sensitivity_squared == mechanism.clip_squared
