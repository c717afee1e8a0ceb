"""Linear regression: it meets every kernel's requirements, and predicts the last column."""

import numpy as np
import pytest
from sottovoce.errors import ConfigError
from sottovoce.kernels import Kernel, kernel_named
from sottovoce.kernels.least_squares import LeastSquares

NONE = np.zeros(8, dtype=np.int64)


def test_without_classes_ridge_is_a_regression() -> None:
    assert kernel_named("ridge", 5, 1, 0) == LeastSquares(5)
    assert kernel_named("ridge", 5, 2, 0) != LeastSquares(5)
    with pytest.raises(ConfigError, match=r"softmax.*ridge"):
        kernel_named("softmax", 5, 1, 0)
    with pytest.raises(ConfigError, match=r"data\.features"):
        kernel_named("ridge", 1, 1, 0)


def test_gradients_match_the_loss_s_slopes() -> None:
    kernel, random = LeastSquares(5), np.random.default_rng(0)
    parameters, x = random.normal(size=(1, 4)), random.normal(size=(8, 5))
    gradients = kernel.gradients(parameters, x[np.newaxis], NONE[np.newaxis])
    assert gradients.shape == (1, 8, kernel.size)
    nudges = 1e-6 * np.eye(4)
    for i in range(8):
        one = x[i : i + 1], NONE[:1]
        slopes = (kernel.loss(parameters + nudges, *one) - kernel.loss(parameters - nudges, *one)) / 2e-6
        np.testing.assert_allclose(gradients[0, i], slopes, atol=1e-7)


@pytest.mark.parametrize("features", [2, 3, 10, 65, 130, 4098])
def test_an_example_s_gradient_does_not_depend_on_other_examples(features: int) -> None:
    kernel, random = LeastSquares(features), np.random.default_rng(features)
    parameters, x = random.normal(size=(1, kernel.size)), random.normal(size=(8, features))
    x[3] *= 1e3
    x[5] *= 1e200
    full = kernel.gradients(parameters, x[np.newaxis], NONE[np.newaxis])[0]
    order = random.permutation(8)
    assert kernel.gradients(parameters, x[order][np.newaxis], NONE[np.newaxis])[0].tobytes() == full[order].tobytes()
    by_column = np.asfortranarray(x)[np.newaxis]
    assert kernel.gradients(parameters, by_column, NONE[np.newaxis])[0].tobytes() == full.tobytes()
    parts = [kernel.gradients(parameters, x[np.newaxis, i : i + 1], NONE[np.newaxis, :1])[0] for i in range(8)]
    assert np.concatenate(parts).tobytes() == full.tobytes()


def test_no_example_raises_or_warns_and_no_examples_are_no_error() -> None:
    """Warnings are errors here, because a warning would reveal something about a record."""
    kernel: Kernel = LeastSquares(3)
    x = np.array([[[1e308, -1e308, 1e308], [0.0, 0.0, 0.0], [1e-320, 5e-324, 0.0], [8e2, -8e2, 1e5]]])
    parameters = np.array([[1e10, -1e10]])
    assert np.isfinite(kernel.gradients(parameters, x, NONE[np.newaxis, :4])[0, 1:]).all()
    assert kernel.gradients(parameters, x[:, :0], NONE[np.newaxis, :0]).shape == (1, 0, 2)


def test_descent_from_zero_finds_the_weights() -> None:
    kernel, random = LeastSquares(4), np.random.default_rng(1)
    x = random.normal(size=(400, 3))
    records = np.column_stack([x, x @ [1.0, -2.0, 0.5]])
    assert kernel.initial(3).tolist() == [0.0] * 3
    parameters = kernel.initial(0)[np.newaxis]
    for _ in range(100):
        slopes = kernel.gradients(parameters, records[np.newaxis], np.zeros((1, 400), dtype=np.int64))
        parameters = parameters - 0.3 * slopes.mean(axis=1)
    np.testing.assert_allclose(parameters, [[1.0, -2.0, 0.5]], atol=1e-6)
    np.testing.assert_allclose(kernel.values(parameters, records)[0], records[:, -1], atol=1e-5)
    assert kernel.predict(parameters, records).tolist() == [[0] * 400]
