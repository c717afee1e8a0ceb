"""Ridge regression on moments: exact without noise, and neither biased nor unstable under noise."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.kernels.least_squares import ridge
from sottovoce.kernels.linear import predict, targets
from sottovoce.privacy.perturbation import Moments, scheme
from sottovoce_lab.simulator.simulated_records import simulate

Rows = NDArray[np.float64]


def make_records(count: int, features: int, classes: int, seed: int = 0) -> tuple[Rows, NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, count)
    rows = generator.normal(size=(count, features)) + 3 * np.eye(classes, features)[labels]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), labels


def sum_moments(rows: Rows, labels: NDArray[np.int64], classes: int) -> Moments:
    return Moments(targets(labels, classes).T @ rows, rows.T @ rows, len(rows))


@pytest.mark.parametrize("classes", [2, 5])
def test_without_noise_it_equals_ridge_regression(classes: int) -> None:
    rows, labels = make_records(300, 6, classes)
    signs = targets(labels, classes)
    penalty = 1 / 300 * 300  # trace/n for n records of length 1, on sums
    expected = np.linalg.solve(rows.T @ rows + penalty * np.eye(6), rows.T @ signs).T
    np.testing.assert_allclose(ridge(sum_moments(rows, labels, classes)), expected, rtol=1e-9)
    exact = scheme("exact", 6, classes, None)
    released = simulate(exact, rows, labels, np.random.default_rng(0))
    np.testing.assert_allclose(ridge(exact.moments(released)), expected, rtol=1e-6)


@pytest.mark.parametrize("classes", [2, 4])
def test_with_more_noisy_records_it_converges_to_the_same_model(classes: int) -> None:
    errors = []
    perturbed = scheme("privunit", 4, classes, 10.0)
    for count in (500, 8000, 128_000):
        rows, labels = make_records(count, 4, classes)
        released = simulate(perturbed, rows, labels, np.random.default_rng(1))
        clean = ridge(sum_moments(rows, labels, classes))
        errors.append(np.linalg.norm(ridge(perturbed.moments(released)) - clean) / np.linalg.norm(clean))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1


def test_an_indefinite_second_moment_yields_a_bounded_model() -> None:
    rows, labels = make_records(2000, 30, 2)
    perturbed = scheme("privunit", 30, 2, 1.0)
    moments = perturbed.moments(simulate(perturbed, rows, labels, np.random.default_rng(2)))
    assert np.linalg.eigvalsh(moments.second)[0] < 0
    weights = ridge(moments)
    assert np.isfinite(weights).all()
    test_rows, test_labels = make_records(2000, 30, 2, seed=9)
    assert (predict(weights[np.newaxis], test_rows) == test_labels).mean() > 0.7


@pytest.mark.parametrize("second", [np.zeros((3, 3)), -np.eye(3)])
def test_without_information_the_model_is_zero(second: Rows) -> None:
    assert not ridge(Moments(np.zeros((2, 3)), second, 4)).any()
    assert np.isfinite(ridge(Moments(np.ones((2, 3)), second, 4))).all()


def test_a_single_record_suffices() -> None:
    rows, labels = make_records(1, 5, 2)
    weights = ridge(sum_moments(rows, labels, 2))
    assert predict(weights[np.newaxis], rows)[0, 0] == labels[0]
