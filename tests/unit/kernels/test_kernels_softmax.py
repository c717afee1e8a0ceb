"""Softmax regression: its gradients match its loss, each example's dependent on that example alone."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.kernels.softmax import Softmax

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def problem(features: int, classes: int, examples: int, seed: int = 0) -> tuple[Floats, Floats, Integers]:
    """Parameters [1, P], features [B, d] and labels [B]."""
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(1, features * classes)),
        rng.normal(size=(examples, features)),
        rng.integers(0, classes, examples),
    )


def test_gradients_match_the_loss_s_slopes() -> None:
    kernel = Softmax(4, 3)
    parameters, features, labels = problem(4, 3, 6)
    gradients = kernel.gradients(parameters, features[np.newaxis], labels[np.newaxis])
    assert gradients.shape == (1, 6, 12)
    nudge = 1e-6
    for i in range(6):
        for j in range(12):
            ahead, behind = parameters.copy(), parameters.copy()
            ahead[0, j] += nudge
            behind[0, j] -= nudge
            one = features[i : i + 1], labels[i : i + 1]
            slope = (kernel.loss(ahead, *one)[0] - kernel.loss(behind, *one)[0]) / (2 * nudge)
            assert gradients[0, i, j] == pytest.approx(slope, abs=1e-8)


def test_the_loss_is_the_cross_entropy() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    kernel = Softmax(5, 4)
    parameters, features, labels = problem(5, 4, 50)
    scores = np.exp(features @ parameters.reshape(5, 4))
    shares = scores / scores.sum(axis=1, keepdims=True)
    expected = metrics.log_loss(labels, shares, labels=range(4))
    assert kernel.loss(parameters, features, labels)[0] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(kernel.predict(parameters, features)[0], shares.argmax(axis=1))


def test_each_node_has_its_own_model() -> None:
    kernel = Softmax(3, 2)
    rng = np.random.default_rng(1)
    parameters, features, labels = rng.normal(size=(5, 6)), rng.normal(size=(5, 7, 3)), rng.integers(0, 2, (5, 7))
    together = kernel.gradients(parameters, features, labels)
    for n in range(5):
        one = slice(n, n + 1)
        assert kernel.gradients(parameters[one], features[one], labels[one]).tobytes() == together[one].tobytes()
        np.testing.assert_allclose(
            kernel.loss(parameters, features[0], labels[0])[n], kernel.loss(parameters[one], features[0], labels[0])[0]
        )


@pytest.mark.parametrize("features", [1, 2, 3, 7, 8, 9, 16, 31, 33, 64, 65, 127, 130, 300, 785])
@pytest.mark.parametrize("classes", [2, 3, 7, 8, 9, 10, 17, 26])
def test_an_example_s_gradient_does_not_depend_on_other_examples(features: int, classes: int) -> None:
    """Otherwise, removing a record would change the sum's other terms, and with them its sensitivity."""
    kernel = Softmax(features, classes)
    count = 24
    parameters, x, y = problem(features, classes, count, seed=features * 100 + classes)
    x[3] *= 1e3
    x[5] *= 1e200
    full = kernel.gradients(parameters, x[np.newaxis], y[np.newaxis])[0]
    order = np.random.default_rng(2).permutation(count)
    shuffled = kernel.gradients(parameters, x[order][np.newaxis], y[order][np.newaxis])[0]
    assert shuffled.tobytes() == full[order].tobytes()
    transposed = kernel.gradients(parameters, np.asfortranarray(x)[np.newaxis], y[np.newaxis])[0]
    assert transposed.tobytes() == full.tobytes()
    for i in range(count):
        alone = kernel.gradients(parameters, x[np.newaxis, i : i + 1], y[np.newaxis, i : i + 1])[0]
        assert alone.tobytes() == full[i : i + 1].tobytes()
    for size in (2, 3, 7, 11):
        parts = [
            kernel.gradients(parameters, x[np.newaxis, start : start + size], y[np.newaxis, start : start + size])[0]
            for start in range(0, count, size)
        ]
        assert np.concatenate(parts).tobytes() == full.tobytes()


def test_the_array_s_address_has_no_effect() -> None:
    kernel = Softmax(65, 10)
    parameters, x, y = problem(65, 10, 9)
    expected = kernel.gradients(parameters, x[np.newaxis], y[np.newaxis]).tobytes()
    room = np.empty(x.size + 64)
    for offset in range(0, 64, 3):
        moved = room[offset : offset + x.size].reshape(x.shape)
        moved[:] = x
        assert kernel.gradients(parameters, moved[np.newaxis], y[np.newaxis]).tobytes() == expected


def test_no_example_raises_or_warns() -> None:
    """Warnings are errors here, because a warning would reveal something about a record."""
    kernel = Softmax(3, 4)
    x = np.array([[[1e308, -1e308, 1e308], [0.0, 0.0, 0.0], [1e-320, 5e-324, 0.0], [800.0, -800.0, 1e5]]])
    parameters = np.full((1, 12), 1e10)
    parameters[0, ::2] *= -1
    gradients = kernel.gradients(parameters, x, np.array([[0, 1, 2, 3]]))
    assert gradients.shape == (1, 4, 12)
    assert np.isfinite(gradients[0, 1:]).all()


def test_arguments_are_not_modified() -> None:
    kernel = Softmax(3, 4)
    parameters, x, y = problem(3, 4, 5)
    for array in (parameters, x, y):
        array.flags.writeable = False
    kernel.gradients(parameters, x[np.newaxis], y[np.newaxis])
    kernel.loss(parameters, x, y)
    kernel.predict(parameters, x)
