"""Kernel gradients: equal to the loss's gradients, each example's dependent on that example alone."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.errors import ConfigError
from sottovoce.kernels import Kernel, kernel_named

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LINEAR = ["softmax", "logistic", "pegasos", "ridge"]
NAMES = [*LINEAR, "mlp"]


def problem(
    kernel: Kernel, features: int, classes: int, examples: int, seed: int = 0
) -> tuple[Floats, Floats, Integers]:
    """Parameters [1, P], features [B, d] and labels [B]."""
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(1, kernel.size)),
        rng.normal(size=(examples, features)),
        rng.integers(0, classes, examples),
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("classes", [2, 3])
def test_gradients_match_the_loss_s_slopes(name: str, classes: int) -> None:
    kernel = kernel_named(name, 4, classes, 5)
    parameters, features, labels = problem(kernel, 4, classes, 6)
    gradients = kernel.gradients(parameters, features[np.newaxis], labels[np.newaxis])
    assert gradients.shape == (1, 6, kernel.size)
    nudges = 1e-6 * np.eye(kernel.size)
    for i in range(6):
        one = features[i : i + 1], labels[i : i + 1]
        slopes = (kernel.loss(parameters + nudges, *one) - kernel.loss(parameters - nudges, *one)) / 2e-6
        np.testing.assert_allclose(gradients[0, i], slopes, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("features", [1, 2, 7, 9, 31, 64, 130, 785, 4097, 9000])
@pytest.mark.parametrize("classes, hidden", [(2, 1), (3, 7), (10, 33)])
def test_an_example_s_gradient_does_not_depend_on_other_examples(
    name: str, features: int, classes: int, hidden: int
) -> None:
    """Otherwise, removing a record would change the sum's other terms, and with them its sensitivity."""
    kernel = kernel_named(name, features, classes, hidden if features < 1000 else 2)
    count = 8
    parameters, x, y = problem(kernel, features, classes, count, seed=features * 100 + classes)
    x[3] *= 1e3
    x[5] *= 1e200
    full = kernel.gradients(parameters, x[np.newaxis], y[np.newaxis])[0]
    order = np.random.default_rng(2).permutation(count)
    assert (
        kernel.gradients(parameters, x[order][np.newaxis], y[order][np.newaxis])[0].tobytes() == full[order].tobytes()
    )
    assert kernel.gradients(parameters, np.asfortranarray(x)[np.newaxis], y[np.newaxis])[0].tobytes() == full.tobytes()
    for size in (1, 3):
        parts = [
            kernel.gradients(parameters, x[np.newaxis, start : start + size], y[np.newaxis, start : start + size])[0]
            for start in range(0, count, size)
        ]
        assert np.concatenate(parts).tobytes() == full.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_array_s_address_has_no_effect(name: str) -> None:
    kernel = kernel_named(name, 65, 10, 9)
    parameters, x, y = problem(kernel, 65, 10, 9)
    expected = kernel.gradients(parameters, x[np.newaxis], y[np.newaxis]).tobytes()
    room = np.empty(x.size + 64)
    for offset in range(0, 64, 3):
        moved = room[offset : offset + x.size].reshape(x.shape)
        moved[:] = x
        assert kernel.gradients(parameters, moved[np.newaxis], y[np.newaxis]).tobytes() == expected


@pytest.mark.parametrize("name", NAMES)
def test_each_node_has_its_own_model(name: str) -> None:
    kernel = kernel_named(name, 3, 4, 5)
    rng = np.random.default_rng(1)
    parameters, x, y = rng.normal(size=(5, kernel.size)), rng.normal(size=(5, 7, 3)), rng.integers(0, 4, (5, 7))
    together = kernel.gradients(parameters, x, y)
    losses, labels = kernel.loss(parameters, x[0], y[0]), kernel.predict(parameters, x[0])
    for n in range(5):
        one = slice(n, n + 1)
        assert kernel.gradients(parameters[one], x[one], y[one]).tobytes() == together[one].tobytes()
        np.testing.assert_allclose(losses[one], kernel.loss(parameters[one], x[0], y[0]))
        np.testing.assert_array_equal(labels[one], kernel.predict(parameters[one], x[0]))


@pytest.mark.parametrize("name", NAMES)
def test_no_example_raises_or_warns_and_no_examples_are_no_error(name: str) -> None:
    """Warnings are errors here, because a warning would reveal something about a record."""
    kernel = kernel_named(name, 3, 4, 2)
    x = np.array([[[1e308, -1e308, 1e308], [0.0, 0.0, 0.0], [1e-320, 5e-324, 0.0], [800.0, -800.0, 1e5]]])
    parameters = np.full((1, kernel.size), 1e10)
    parameters[0, ::2] *= -1
    gradients = kernel.gradients(parameters, x, np.array([[0, 1, 2, 3]]))
    assert np.isfinite(gradients[0, 1:]).all()
    assert kernel.gradients(parameters, x[:, :0], np.empty((1, 0), dtype=np.int64)).shape == (1, 0, kernel.size)


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_not_modified(name: str) -> None:
    kernel = kernel_named(name, 3, 4, 2)
    parameters, x, y = problem(kernel, 3, 4, 5)
    for array in (parameters, x, y):
        array.flags.writeable = False
    kernel.gradients(parameters, x[np.newaxis], y[np.newaxis])
    kernel.loss(parameters, x, y)
    kernel.predict(parameters, x)


@pytest.mark.parametrize("name", NAMES)
def test_descent_from_the_public_start_learns(name: str) -> None:
    kernel = kernel_named(name, 3, 3, 6)
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 200)
    x = np.eye(3)[y] + rng.normal(scale=0.2, size=(200, 3))
    parameters = kernel.initial(0)[np.newaxis]
    for _ in range(60):
        parameters = parameters - 0.3 * kernel.gradients(parameters, x[np.newaxis], y[np.newaxis]).mean(axis=1)
    assert (kernel.predict(parameters, x)[0] == y).mean() > 0.9


@pytest.mark.parametrize("name", LINEAR)
def test_linear_models_start_at_zero(name: str) -> None:
    kernel = kernel_named(name, 5, 3, 0)
    assert kernel.initial(7).tolist() == [0.0] * kernel.size


@pytest.mark.process
def test_linear_models_never_load_the_random_number_generators() -> None:
    """The generators take 7 MiB, and other kernels' modules would be loaded for nothing."""
    code = (
        "import sys, numpy as np; from sottovoce.kernels import kernel_named\n"
        f"for name in {LINEAR}:\n"
        "    kernel = kernel_named(name, 3, 4, 0)\n"
        "    kernel.gradients(kernel.initial(1)[np.newaxis], np.ones((1, 2, 3)), np.zeros((1, 2), dtype=np.int64))\n"
        "print(*sys.modules)"
    )
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "sottovoce.kernels.binary" in names
    assert not {"numpy.random", "sottovoce.kernels.mlp"} & set(names)


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(
        ConfigError,
        match=r"'svm'.*softmax, logistic, pegasos, ridge, mlp",
    ):
        kernel_named("svm", 3, 2, 0)
