"""Cosine weights: by hand, and the effect of noise on them."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sottovoce_papers.pdsl_2025 import shapley


def test_by_angles() -> None:
    angles = np.deg2rad([0, 60, 120])
    equal = np.column_stack([np.cos(angles), np.sin(angles)])  # their mean is at 60°
    np.testing.assert_allclose(shapley.weights_by_mean(equal), [0.25, 0.5, 0.25], atol=1e-12)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**32), st.floats(1e-6, 1e6))
def test_weights_are_shares_and_keep_to_the_gradients_order_and_scale(
    count: int, size: int, seed: int, scale: float
) -> None:
    generator = np.random.default_rng(seed)
    gradients = generator.normal(size=(count, size))
    order = generator.permutation(count)
    weights, reordered = shapley.weights_by_mean(gradients), shapley.weights_by_mean(gradients[order])
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert (weights >= 0).all()
    np.testing.assert_allclose(reordered, weights[order], atol=1e-9)
    np.testing.assert_allclose(
        shapley.weights_by_mean(scale * gradients), shapley.weights_by_mean(gradients), atol=1e-9
    )


@pytest.mark.parametrize("rows", [[[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [-1.0, 0.0]]])
def test_all_alike_where_nothing_points_along(rows: list[list[float]]) -> None:
    assert shapley.weights_by_mean(np.array(rows)).tolist() == [0.5, 0.5]


def test_a_gradient_of_zeros_weighs_nothing() -> None:
    assert shapley.weights_by_mean(np.array([[1.0, 0.0], [0.0, 0.0]])).tolist() == [1.0, 0.0]
    assert shapley.weights_by_mean(np.zeros((4, 2))).tolist() == [0.25] * 4


def test_under_noise_weights_tend_to_equal_ones() -> None:
    gradients = np.random.default_rng(0).normal(size=(9, 40_000))
    np.testing.assert_allclose(shapley.weights_by_mean(gradients), np.full(9, 1 / 9), rtol=0.05)


def test_who_points_the_other_way_is_left_out() -> None:
    honest = np.random.default_rng(1).normal(size=(5, 50)) * 0.1 + 1
    weights = shapley.weights_by_mean(np.vstack([honest, -honest[:1]]))
    assert weights[5] == 0
    assert math.isclose(weights[:5].sum(), 1)
