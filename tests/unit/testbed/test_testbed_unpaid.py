"""Values that only the harness may read: the true mean, and the longest gradient in runs without privacy."""

import numpy as np
import pytest
from sottovoce.kernels.profile import Profile
from sottovoce.kernels.softmax import Softmax
from sottovoce_lab.testbed.gradient_bound import longest_gradient
from sottovoce_lab.testbed.mean_errors import ErrorMeter


def test_errors_are_relative_to_the_true_mean_of_all_vectors() -> None:
    """Mean (1, 1); clipped at 2, (4, 0) becomes (2, 0) and the mean (1/2, 1)."""
    meter = ErrorMeter(np.array([[4.0, 0.0], [-2.0, 0.0], [0.0, 2.0], [2.0, 2.0]]), Profile(2, 2.0), 3.0)
    result = meter.measure_all([np.array([1.0, 1.0]), np.array([1.0, 3.0])])
    assert result.rmse_mean == pytest.approx((0 + np.sqrt(2)) / 2)
    assert result.rmse_max == pytest.approx(np.sqrt(2))
    assert result.mae_mean == pytest.approx((0 + 1) / 2)
    assert result.loss_mean == pytest.approx((0 + 2) / 2)
    assert result.rmse_theory == pytest.approx(1.5), "σ/√n"
    shortened = np.array([(2 - 2 + 0 + np.sqrt(2)) / 4, (0 + 0 + 2 + np.sqrt(2)) / 4])
    assert result.rmse_clip == pytest.approx(np.sqrt(np.mean((shortened - 1) ** 2)))
    assert result.accuracy_mean is None


def test_the_longest_gradient_belongs_to_the_longest_drawn_record() -> None:
    """At model 0 with two classes, the gradient of x has length |x|/√2; with a step of 0, the model does not move."""
    features = np.array([[1.0, 0.0], [0.0, 3.0], [0.5, 0.5]])
    labels = np.array([0, 1, 0])
    kernel = Softmax(2, 2)
    result = longest_gradient(kernel, features, labels, agents=3, steps=20, step_size=0.0, seed=1)
    assert result == pytest.approx(3 / np.sqrt(2))
    repeated = longest_gradient(kernel, features, labels, agents=3, steps=20, step_size=0.5, seed=1)
    assert repeated == longest_gradient(kernel, features, labels, agents=3, steps=20, step_size=0.5, seed=1)
    assert repeated >= result
