"""Values that only the harness may read: the true mean, and the longest gradient of runs without privacy."""

import numpy as np
import pytest
from sottovoce.kernels.profile import Profile
from sottovoce.kernels.softmax import Softmax
from sottovoce_lab.testbed.errors_of_mean import ErrorMeter
from sottovoce_lab.testbed.gradient_bound import longest_gradient


def test_errors_are_against_the_true_mean_of_all_vectors() -> None:
    """Mean (1, 1); clipped at 2, (4, 0) becomes (2, 0) and the mean (1/2, 1)."""
    meter = ErrorMeter(np.array([[4.0, 0.0], [-2.0, 0.0], [0.0, 2.0], [2.0, 2.0]]), Profile(2, 2.0), 3.0)
    found = meter.final([np.array([1.0, 1.0]), np.array([1.0, 3.0])])
    assert found.rmse_mean == pytest.approx((0 + np.sqrt(2)) / 2)
    assert found.rmse_max == pytest.approx(np.sqrt(2))
    assert found.mae_mean == pytest.approx((0 + 1) / 2)
    assert found.loss_mean == pytest.approx((0 + 2) / 2)
    assert found.rmse_theory == pytest.approx(1.5), "σ/√n"
    shortened = np.array([(2 - 2 + 0 + np.sqrt(2)) / 4, (0 + 0 + 2 + np.sqrt(2)) / 4])
    assert found.rmse_clip == pytest.approx(np.sqrt(np.mean((shortened - 1) ** 2)))
    assert found.accuracy_mean is None


def test_the_longest_gradient_is_that_of_the_longest_record_drawn() -> None:
    """At the model 0 in two classes the gradient of x is |x|/√2 long; with a step of 0 the model stays there."""
    features = np.array([[1.0, 0.0], [0.0, 3.0], [0.5, 0.5]])
    labels = np.array([0, 1, 0])
    kernel = Softmax(2, 2)
    found = longest_gradient(kernel, features, labels, agents=3, steps=20, step_size=0.0, seed=1)
    assert found == pytest.approx(3 / np.sqrt(2))
    again = longest_gradient(kernel, features, labels, agents=3, steps=20, step_size=0.5, seed=1)
    assert again == longest_gradient(kernel, features, labels, agents=3, steps=20, step_size=0.5, seed=1)
    assert again >= found
