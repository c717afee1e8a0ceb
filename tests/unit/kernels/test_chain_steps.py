"""Steps in Algorithm 1 against the published vectors and a gradient by differences, and Lemma 4 on real chains."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from sottovoce.errors import ConfigError
from sottovoce.kernels.decentralised import chain_steps

Array = NDArray[np.float64]
FEATURES = np.array([[0.6, 0.8], [0.8, -0.6]])
LABELS = np.array([1.0, -1.0])
LOCAL, GLOBAL = np.array([0.5, -0.25]), np.array([0.1, 0.2])


def loss(w: Array, features: Array = FEATURES, labels: Array = LABELS) -> float:
    return sum(math.log1p(math.exp(-y * float(x @ w))) for x, y in zip(features, labels, strict=True)) / len(labels)


def slope(w: Array, features: Array = FEATURES, labels: Array = LABELS) -> Array:
    """Return the loss gradient by central differences."""
    h = 1e-6
    return np.array(
        [(loss(w + h * e, features, labels) - loss(w - h * e, features, labels)) / (2 * h) for e in np.eye(len(w))]
    )


def test_the_published_vectors_are_reproduced() -> None:
    assert loss(LOCAL) == pytest.approx(0.8249445708, rel=1e-9)
    after = chain_steps.local_step(LOCAL, slope(LOCAL), 0.1)
    np.testing.assert_allclose(after, [0.4777704015, -0.1739501995], rtol=1e-8)
    after = chain_steps.global_step(GLOBAL, LOCAL, slope(GLOBAL), np.array([0.3, -0.1]), 0.1)
    np.testing.assert_allclose(after, [0.2637565696, 0.0175088706], rtol=1e-8)


def test_without_noise_a_global_step_averages_and_takes_half_a_local_step() -> None:
    gradient = np.array([[1.0, -2.0], [0.5, 4.0]])
    both = chain_steps.global_step(gradient, gradient, gradient, np.zeros((2, 2)), 0.1)
    np.testing.assert_allclose(both, (gradient + chain_steps.local_step(gradient, gradient, 0.1)) / 2)


@pytest.mark.parametrize("seed", range(5))
def test_one_record_moves_a_chain_by_at_most_lemma_4_s_bound(seed: int) -> None:
    """Δ₂ = 2ηL/b, with L = 1 and η ≤ 1/(2μ), however many local steps lie between the record and the release."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(12, 4, 3))
    features /= np.linalg.norm(features, axis=2, keepdims=True)
    labels = generator.choice([-1.0, 1.0], (12, 4))
    changed, changed_labels = features.copy(), labels.copy()
    changed[0, 0] *= -1

    def chain(features: Array, labels: Array) -> Array:
        local = np.zeros(3)
        for batch, signs in zip(features[:-1], labels[:-1], strict=True):
            local = chain_steps.local_step(local, slope(local, batch, signs), 0.5)
        return chain_steps.global_step(GLOBAL3, local, slope(GLOBAL3, features[-1], labels[-1]), np.zeros(3), 0.5)

    moved = np.linalg.norm(chain(features, labels) - chain(changed, changed_labels))
    assert 0 < moved <= 2 * 0.5 / 4 + 1e-8


GLOBAL3 = np.array([0.3, -0.2, 0.1])


def test_schedules() -> None:
    assert [chain_steps.constant(0.1)(t) for t in (1, 7)] == [0.1, 0.1]
    assert [chain_steps.inverse_square_root()(t) for t in (1, 4, 100)] == [1.0, 0.5, 0.1]
    bounded = chain_steps.strongly_convex(0.05, 1e-4, 1 + 1e-4)
    printed = chain_steps.strongly_convex(0.05, 1e-4, None)
    assert printed(1) == pytest.approx(2e5)
    crossing = next(t for t in range(400_000, 400_100) if printed(t) <= bounded(1))
    assert crossing == 400_040, "when the printed step first obeys η ≤ 1/(2μ)"
    assert bounded(crossing - 1) == 1 / (2 * (1 + 1e-4))
    assert bounded(crossing) == printed(crossing)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_schedules_never_grow(earlier: int, later: int) -> None:
    earlier, later = sorted((earlier, later))
    for schedule in (
        chain_steps.constant(0.1),
        chain_steps.strongly_convex(0.05, 1e-4, 1.0),
        chain_steps.strongly_convex(0.5, 0.1, None),
        chain_steps.inverse_square_root(),
    ):
        assert 0 < schedule(later) <= schedule(earlier)


@given(st.integers(1, 5), st.floats(0.1, 10), st.floats(0.01, 100), st.integers(0, 2**32))
def test_projection_yields_the_nearest_point_and_increases_no_distance(
    size: int, radius: float, spread: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    one, other, inside = generator.normal(scale=spread, size=(3, size, 2))
    near = chain_steps.project_onto_ball(one, radius)
    assert np.linalg.norm(near) <= radius * (1 + 1e-12)
    inside *= radius / max(radius, float(np.linalg.norm(inside)))
    np.testing.assert_array_equal(chain_steps.project_onto_ball(inside * 0.99, radius), inside * 0.99)
    assert np.linalg.norm(one - near) <= np.linalg.norm(one - inside) * (1 + 1e-9) + 1e-12
    apart = np.linalg.norm(near - chain_steps.project_onto_ball(other, radius))
    assert apart <= np.linalg.norm(one - other) * (1 + 1e-12)


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"step size.*\b0\b"):
        chain_steps.constant(0.0)
    with pytest.raises(ConfigError, match="strong convexity"):
        chain_steps.strongly_convex(0.05, 0.0, 1.0)
    with pytest.raises(ConfigError, match="smoothness"):
        chain_steps.strongly_convex(0.05, 1.0, -1.0)
    with pytest.raises(ConfigError, match="radius"):
        chain_steps.project_onto_ball(np.ones(2), math.nan)
