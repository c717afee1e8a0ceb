"""Advice: valid shapes, mixtures as declared, and an order of learners."""

import numpy as np
import pytest
from sottovoce.errors import UsageError
from sottovoce_lab.library.advice import Shape, advise, mixture, separations


@pytest.mark.parametrize(
    "own, words",
    [
        ({"records": 3}, "--records 3: choose 10 or more"),
        ({"agents": 1}, "--agents 1: choose 2 or more"),
        ({"features": 0}, "--features 0: choose 1 or more"),
        ({"classes": 1}, "--classes 1: choose 2 or more"),
        ({"epsilon": 0.0}, "--epsilon 0: choose more than 0"),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused(own: dict[str, float], words: str) -> None:
    usual = {"records": 50, "agents": 4, "features": 8, "classes": 3, "epsilon": 2.0}
    with pytest.raises(UsageError, match=words):
        Shape(**{**usual, **own})  # type: ignore[arg-type]


def test_a_mixture_has_its_shape_and_its_difficulty() -> None:
    shape = Shape(records=200, agents=5, features=12, classes=3, epsilon=1.0)
    alike = []
    for separation in separations(shape):
        found = mixture(shape, separation, seed=1)
        assert found.records.features.shape == (1000, 12)
        assert found.classes == 3
        assert np.abs(found.records.features).max() <= 1
        means = [found.records.features[found.records.labels == label].mean(axis=0) for label in range(3)]
        spread = found.records.features.std(axis=0).mean()
        alike.append(np.linalg.norm(means[0] - means[1]) / spread)
    assert alike == sorted(alike)


@pytest.mark.parametrize("classes, features", [(2, 5), (2, 60), (10, 200), (26, 16)])
def test_difficulties_follow_the_shape(classes: int, features: int) -> None:
    hard, usual, easy = separations(Shape(50, 4, features, classes, 1.0))
    assert hard < usual < easy
    assert _of_the_best_rule(hard, features, classes) == pytest.approx(0.7, abs=0.04)
    assert _of_the_best_rule(easy, features, classes) > 0.99


def _of_the_best_rule(separation: float, features: int, classes: int) -> float:
    """Accuracy of the nearest mean, measured in standard deviations, on other records than the rule was found by."""
    rng = np.random.default_rng((0, features, classes))
    means = rng.standard_normal((classes, features))
    means *= separation / np.linalg.norm(means, axis=1, keepdims=True)
    scales = 1 / np.sqrt(1 + np.arange(features) / 4)
    scales *= np.sqrt(features / (scales**2).sum())
    labels = np.random.default_rng(7).integers(0, classes, 3000)
    values = means[labels] + np.random.default_rng(8).standard_normal((3000, features)) * scales
    distances = (((values[:, None] - means) / scales) ** 2).sum(axis=2)
    return float((distances.argmin(axis=1) == labels).mean())


def test_the_best_is_first_and_says_what_it_promises() -> None:
    told: list[tuple[int, int, str]] = []
    found = advise(Shape(20, 2, 4, 2, 8.0), lambda done, of, name: told.append((done, of, name)))
    assert told[-1][0] == told[-1][1]
    assert "group-sgd" not in {one.learner for one in found}, "two devices are no cell"
    assert found[0].mean == max(one.mean for one in found[:4])
    low, high = found[0].interval
    assert 0 <= low <= found[0].mean <= high <= 1
    assert found[0].promise
    assert found[0].one_member
    assert found[0].wire_bytes > 0
