"""Advice: valid shapes, mixtures as declared, and an order of learners."""

import numpy as np
import pytest
from sottovoce.errors import UsageError
from sottovoce_lab.library.advice import Shape, advise, compute_separations, generate_mixture


@pytest.mark.parametrize(
    "own, words",
    [
        ({"records": 3}, r"--records.*\b3\b.*\b10\b"),
        ({"agents": 1}, r"--agents.*\b1\b.*\b2\b"),
        ({"features": 0}, r"--features.*\b0\b.*\b1\b"),
        ({"classes": 1}, r"--classes.*\b1\b.*\b2\b"),
        ({"epsilon": 0.0}, r"--epsilon.*\b0\b"),
    ],
)
def test_an_invalid_shape_is_refused(own: dict[str, float], words: str) -> None:
    usual = {"records": 50, "agents": 4, "features": 8, "classes": 3, "epsilon": 2.0}
    with pytest.raises(UsageError, match=words):
        Shape(**{**usual, **own})  # type: ignore[arg-type]


def test_a_mixture_has_the_declared_shape_and_difficulty() -> None:
    shape = Shape(records=200, agents=5, features=12, classes=3, epsilon=1.0)
    alike = []
    for separation in compute_separations(shape):
        result = generate_mixture(shape, separation, seed=1)
        assert result.records.features.shape == (1000, 12)
        assert result.classes == 3
        assert np.abs(result.records.features).max() <= 1
        means = [result.records.features[result.records.labels == label].mean(axis=0) for label in range(3)]
        spread = result.records.features.std(axis=0).mean()
        alike.append(np.linalg.norm(means[0] - means[1]) / spread)
    assert alike == sorted(alike)


@pytest.mark.parametrize("classes, features", [(2, 5), (2, 60), (10, 200), (26, 16)])
def test_difficulties_follow_the_shape(classes: int, features: int) -> None:
    hard, usual, easy = compute_separations(Shape(50, 4, features, classes, 1.0))
    assert hard < usual < easy
    assert _of_the_best_rule(hard, features, classes) == pytest.approx(0.7, abs=0.04)
    assert _of_the_best_rule(easy, features, classes) > 0.99


def _of_the_best_rule(separation: float, features: int, classes: int) -> float:
    """Return the accuracy of the nearest mean, in standard deviations, on records that the rule has not seen."""
    rng = np.random.default_rng((0, features, classes))
    means = rng.standard_normal((classes, features))
    means *= separation / np.linalg.norm(means, axis=1, keepdims=True)
    scales = 1 / np.sqrt(1 + np.arange(features) / 4)
    scales *= np.sqrt(features / (scales**2).sum())
    labels = np.random.default_rng(7).integers(0, classes, 3000)
    values = means[labels] + np.random.default_rng(8).standard_normal((3000, features)) * scales
    distances = (((values[:, None] - means) / scales) ** 2).sum(axis=2)
    return float((distances.argmin(axis=1) == labels).mean())


@pytest.mark.process
def test_the_best_learner_is_first_with_its_guarantee() -> None:
    reported: list[tuple[int, int, str]] = []
    result = advise(Shape(20, 2, 4, 2, 8.0), lambda done, of, name: reported.append((done, of, name)))
    assert reported[-1][0] == reported[-1][1]
    assert "group-sgd" not in {item.learner for item in result}, "two devices do not form a cell"
    assert result[0].mean == max(item.mean for item in result[:4])
    low, high = result[0].interval
    assert 0 <= low <= result[0].mean <= high <= 1
    assert result[0].promise
    assert result[0].one_member
    assert result[0].wire_bytes > 0


@pytest.mark.process
def test_an_interruption_keeps_what_is_known() -> None:
    def interrupt(done: int, total: int, name: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    found = advise(Shape(20, 2, 4, 2, 8.0), interrupt)
    assert len(found) == 2
    assert all(len(item.accuracies) == 1 for item in found)
    assert found[0].mean >= found[1].mean
