"""Predictions' errors against the truth, and the baselines for comparison."""

import numpy as np
import pytest
from sottovoce.data import Records, Target
from sottovoce.kernels.least_squares import LeastSquares
from sottovoce_lab.testbed.prediction_errors import PredictionMeter, least_squares


def records(*rows: tuple[float, float]) -> Records:
    return Records(np.array(rows), np.zeros(len(rows), dtype=np.int64))


TEST = records((1.0, 3.0), (2.0, 2.0), (4.0, 5.0))
HELD = [records((1.0, 1.0), (2.0, 1.0)), records((3.0, 4.0))]


def test_errors_are_averaged_over_agents_in_the_target_s_own_unit() -> None:
    """Models 1 and 0 are off by 2, 0, 1 and 3, 2, 5; the fit to x = 1, 2, 3 and y = 1, 1, 4 is w = 15/14."""
    result = PredictionMeter(LeastSquares(2), TEST, None, HELD, 0).measure_all([np.array([1.0]), np.array([0.0])])
    assert result.mae_mean == pytest.approx((1 + 10 / 3) / 2)
    assert result.mae_max == pytest.approx(10 / 3)
    assert result.rmse_max == pytest.approx(np.sqrt(38 / 3))
    assert result.rmse_mean == pytest.approx((np.sqrt(5 / 3) + np.sqrt(38 / 3)) / 2)
    assert result.loss_mean == pytest.approx((5 / 6 + 38 / 6) / 2)
    w = 15 / 14
    assert result.mae_least_squares == pytest.approx((3 - w + 2 * w - 2 + 5 - 4 * w) / 3)
    assert (result.mae_persistence, result.mae_same_time_yesterday, result.unit) == (None, None, None)
    assert result.accuracy_mean is None


def test_errors_and_baselines_are_reported_in_the_measured_unit() -> None:
    baselines = {"persistence": np.array([30.0, 20.0, 80.0])}
    target = Target("Wh", lambda features, targets: 10 * targets, baselines, overlap=1)
    result = PredictionMeter(LeastSquares(2), TEST, target, HELD, 0).measure_all([np.array([1.0])])
    assert result.unit == "Wh"
    assert result.mae_mean == pytest.approx(10)
    assert result.mae_persistence == pytest.approx(10)
    assert result.mae_same_time_yesterday is None
    assert result.loss_mean == pytest.approx(5 / 6), "the model's own scale"


def test_curve_baselines_use_sampled_records() -> None:
    random = np.random.default_rng(0)
    many = random.normal(size=(5000, 2))
    target = Target("Wh", lambda features, targets: targets, {"persistence": many[:, -1] + 1}, overlap=1)
    meter = PredictionMeter(LeastSquares(2), Records(many, np.zeros(5000, dtype=np.int64)), target, HELD, 0)
    models = [np.array([float(w)]) for w in random.normal(size=150)]
    assert meter.measure_sample(models).mae_persistence == pytest.approx(1)
    assert meter.measure_sample(models).mae_mean == pytest.approx(meter.measure_all(models).mae_mean, rel=0.1)


def test_the_exact_fit_is_the_shortest_solution() -> None:
    twice = Records(np.array([[1.0, 1.0, 2.0]] * 3), np.zeros(3, dtype=np.int64))
    np.testing.assert_allclose(least_squares([twice], 2), [1.0, 1.0])
    assert least_squares([], 2).tolist() == [0.0, 0.0]
