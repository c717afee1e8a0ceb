"""One-vs-all losses computed by hand, and the layout that they share with gossip learning's models."""

import math

import numpy as np
import pytest
from sottovoce.kernels import kernel_named
from sottovoce.kernels.linear import OneVsAll


@pytest.mark.parametrize(
    "name, loss, slope",
    [
        # w = (1, -2) and x = (0.5, 0.75) have a score of -1
        ("logistic", math.log(1 + math.e), -math.e / (1 + math.e)),
        ("pegasos", 2.0, -1.0),
        ("ridge", 2.0, -2.0),
    ],
)
def test_one_binary_example_matches_hand_computation(name: str, loss: float, slope: float) -> None:
    kernel = kernel_named(name, 2, 2, 0)
    w, x, y = np.array([[1.0, -2.0]]), np.array([[0.5, 0.75]]), np.array([1])
    assert kernel.loss(w, x, y)[0] == pytest.approx(loss, rel=1e-15)
    np.testing.assert_allclose(kernel.gradients(w, x[np.newaxis], y[np.newaxis])[0, 0], slope * x[0], rtol=1e-15)


def test_the_hinge_has_slope_zero_beyond_its_margin() -> None:
    kernel = kernel_named("pegasos", 1, 2, 0)
    gradients = kernel.gradients(np.array([[1.0]]), np.array([[[0.999], [1.0], [2.0]]]), np.array([[1, 1, 1]]))
    assert gradients[0, :, 0].tolist() == [-0.999, 0.0, 0.0]


@pytest.mark.parametrize("name", ["logistic", "pegasos", "ridge"])
def test_classes_are_stored_as_consecutive_binary_models(name: str) -> None:
    full, one = kernel_named(name, 4, 3, 0), kernel_named(name, 4, 2, 0)
    rng = np.random.default_rng(0)
    w, x, y = rng.normal(size=(1, 12)), rng.normal(size=(6, 4)), rng.integers(0, 3, 6)
    gradients = full.gradients(w, x[np.newaxis], y[np.newaxis]).reshape(6, 3, 4)
    losses = 0.0
    for k in range(3):
        mine = w[:, 4 * k : 4 * k + 4]
        is_k = (y == k).astype(np.int64)
        alone = one.gradients(mine, x[np.newaxis], is_k[np.newaxis])[0]
        np.testing.assert_array_equal(gradients[:, k], alone)
        losses += one.loss(mine, x, is_k)[0]
    assert full.loss(w, x, y)[0] == pytest.approx(losses, rel=1e-14)
    np.testing.assert_array_equal(full.predict(w, x), OneVsAll(4, 3).predict(w, x))
