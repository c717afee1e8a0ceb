"""Generated data: reproducible, balanced, and as difficult as declared."""

import numpy as np
import pytest
from sottovoce.data import DataSet, synthetic, two_gaussians
from sottovoce.errors import DataError
from sottovoce_lab.simulator.partition import one_record, partition


def accuracy(data: DataSet) -> float:
    """Return the accuracy of the rule that knows the class means: nearest mean."""
    assert data.test is not None
    means = np.stack([data.records.features[data.records.labels == k].mean(axis=0) for k in range(data.classes)])
    distances = ((data.test.features[:, np.newaxis] - means) ** 2).sum(axis=2)
    return float((distances.argmin(axis=1) == data.test.labels).mean())


@pytest.mark.parametrize("features, classes", [(1, 2), (20, 2), (57, 5)])
def test_synthetic_classes_are_balanced_and_learnable(features: int, classes: int) -> None:
    data = synthetic(features, classes, 3000, 7)
    assert data.records.features.shape == (3000, features)
    assert np.ptp(np.bincount(data.records.labels, minlength=classes)) <= 1
    assert data.bounds is None
    assert accuracy(data) > (0.8 if features > 1 else 0.5)


def test_the_two_gaussians_match_the_paper() -> None:
    data = two_gaussians(4000, 1)
    for label, mean in enumerate([(0, 10), (10, 0)]):
        rows = data.records.features[data.records.labels == label]
        np.testing.assert_allclose(rows.mean(axis=0), mean, atol=0.1)
        np.testing.assert_allclose(rows.std(axis=0), 1, atol=0.1)
    assert accuracy(data) == 1.0


def test_the_same_seed_yields_the_same_data() -> None:
    one, other, another = (synthetic(3, 2, 10, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.records.features, other.records.features)
    assert not np.array_equal(one.records.features, another.records.features)


def test_impossible_data_are_refused() -> None:
    for features, classes, count in ((0, 2, 1), (1, 1, 1), (1, 2, 0)):
        with pytest.raises(DataError, match="requires"):
            synthetic(features, classes, count, 0)
    with pytest.raises(DataError, match="1 record"):
        two_gaussians(0, 0)


def test_one_record_per_agent_is_the_partition() -> None:
    dealt = one_record(50, 20, 3)
    assert len(set(dealt.tolist())) == 20
    parts = partition("one-record", np.zeros(50, dtype=np.int64), 20, 3)
    assert np.array_equal(np.concatenate(parts), dealt)
    with pytest.raises(DataError, match="agents"):
        one_record(5, 6, 0)
