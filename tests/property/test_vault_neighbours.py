"""Vault without noise: adding a record moves the sum by exactly that record's clipped gradient."""

import numpy as np
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.clipped_sum import exact_sum
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise

CLIP = 0.7


def clipped_sum(records: Records, kernel: Softmax, point: NDArray[np.float64]) -> NDArray[np.int64]:
    """Σ clipped gradients in grid units, int64[P]."""
    ledger = Ledger.in_memory("meter-17", Budget(None, 1e-5, "record", "add-remove"))
    vault = build(
        records=records, kernel=kernel, terms=GradientTerms("clipd2p", 1, CLIP), ledger=ledger, noise=SeededNoise(1)
    )
    answer = vault.answer(Query("clipd2p", "gradient", 0, point))
    vault.close()
    assert not isinstance(answer, Refused)
    assert answer.step == exact_sum(clip=CLIP, size=1).step
    return answer.value


@given(
    features=st.integers(1, 70),
    classes=st.integers(2, 12),
    count=st.integers(1, 300),
    scale=st.sampled_from([1e-3, 1.0, 1e3, 1e200]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_one_record_moves_the_sum_by_its_own_clipped_gradient(
    features: int, classes: int, count: int, scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    kernel, point = Softmax(features, classes), rng.normal(size=features * classes)
    records = Records(rng.normal(size=(count, features)) * scale, rng.integers(0, classes, count))
    bound = exact_sum(clip=CLIP, size=1).clip_squared
    assert bound is not None
    full_sum = clipped_sum(records, kernel, point)
    for removed in {0, count // 2, count - 1}:
        rest = Records(np.delete(records.features, removed, axis=0), np.delete(records.labels, removed))
        single = Records(records.features[removed : removed + 1], records.labels[removed : removed + 1])
        difference = full_sum - clipped_sum(rest, kernel, point)
        assert sum(int(number) ** 2 for number in difference) <= bound
        np.testing.assert_array_equal(difference, clipped_sum(single, kernel, point))


@given(st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_a_long_gradient_moves_the_sum_by_almost_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel = Softmax(5, 3)
    records = Records(rng.normal(size=(1, 5)) * 1e3, rng.integers(0, 3, 1))
    bound = exact_sum(clip=CLIP, size=1).clip_squared
    assert bound is not None
    difference = clipped_sum(records, kernel, np.zeros(15))
    assert 0.9999 * bound <= sum(int(number) ** 2 for number in difference) <= bound
