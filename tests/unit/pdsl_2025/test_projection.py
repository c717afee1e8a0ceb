"""Quadratic programme against every set of active constraints, SciPy, and the optimality conditions."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls
from sottovoce_papers.pdsl_2025 import projection

Rows = NDArray[np.float64]


def by_trying_all_faces(own: Rows, others: Rows) -> Rows:
    """Return the nearest feasible projection onto {g ⟂ every vector in a subset}, over all subsets."""
    best = np.zeros_like(own)
    for size in range(len(others) + 1):
        for subset in itertools.combinations(range(len(others)), size):
            face = others[list(subset)]
            g = own - np.linalg.pinv(face) @ (face @ own) if size else own
            if (others @ g >= -1e-9).all() and np.linalg.norm(g - own) < np.linalg.norm(best - own):
                best = g
    return best


def check_optimal(own: Rows, others: Rows, g: Rows, slack: float = 1e-9) -> None:
    """Check Moreau's conditions: g in the cone, g - own in its dual, both orthogonal. Only the optimum meets them."""
    length = float(np.linalg.norm(own))
    if length == 0:
        assert not g.any()
        return
    peaks = np.abs(others).max(axis=1, keepdims=True)
    rows = (others / np.where(peaks > 0, peaks, 1))[peaks[:, 0] > 0]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert (rows @ g >= -1e-11 * length).all()
    assert abs(g @ (g - own)) <= 1e-11 * length**2
    moved = (g - own) / length
    assert (nnls(rows.T, moved)[1] if len(rows) else np.linalg.norm(moved)) <= slack


def test_hand_computed_cases() -> None:
    own = np.array([1.0, -2.0])
    np.testing.assert_allclose(projection.project(own, np.array([[0.0, 3.0]])), [1, 0], atol=1e-15)
    np.testing.assert_allclose(projection.project(own, np.array([[1.0, 0.0]])), own, atol=1e-15)
    np.testing.assert_allclose(projection.project(own, np.array([[0.0, 1.0], [-1.0, 0.0]])), [0, 0], atol=1e-15)


@given(st.integers(0, 4), st.integers(1, 5), st.integers(0, 2**32))
@settings(max_examples=60)
def test_the_result_is_the_best_over_all_faces(count: int, size: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    own, others = generator.normal(size=size), generator.normal(size=(count, size))
    np.testing.assert_allclose(projection.project(own, others), by_trying_all_faces(own, others), atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_scipy_s_primal_solution_agrees(seed: int) -> None:
    generator = np.random.default_rng(seed)
    own, others = generator.normal(size=8), generator.normal(size=(6, 8))
    result = minimize(
        lambda g: ((g - own) ** 2).sum(),
        own,
        jac=lambda g: 2 * (g - own),
        constraints={"type": "ineq", "fun": lambda g: others @ g, "jac": lambda g: others},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(projection.project(own, others), result.x, atol=1e-6)


small = st.integers(-2, 2)


@given(
    st.integers(1, 4).flatmap(
        lambda size: st.tuples(
            st.lists(small, min_size=size, max_size=size),
            st.lists(st.lists(small, min_size=size, max_size=size), max_size=9),
        )
    )
)
@settings(max_examples=120)
def test_degenerate_grams(case: tuple[list[int], list[list[int]]]) -> None:
    """The cases have small integers: zero vectors, copies, opposites, more vectors than dimensions."""
    own = np.array(case[0], dtype=np.float64)
    others = np.array(case[1], dtype=np.float64).reshape(-1, len(own))
    check_optimal(own, others, projection.project(own, others))


@given(st.integers(2, 20), st.integers(1, 12), st.integers(3, 16), st.integers(0, 2**32))
@settings(max_examples=60)
def test_nearly_opposite_and_nearly_equal_vectors(size: int, count: int, digits: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    base = generator.normal(size=(2, size))
    signs = generator.choice([-1.0, 1.0], (count, 1))
    others = signs * base[generator.integers(0, 2, count)] + 10.0**-digits * generator.normal(size=(count, size))
    own = generator.normal(size=size) - others.sum(axis=0)
    # rounding the vectors rotates the plane that two of them span, the more so the less they differ
    check_optimal(own, others, projection.project(own, others), slack=10.0 ** (digits - 14))


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_only_the_others_directions_count(scale: float) -> None:
    generator = np.random.default_rng(0)
    own, others = generator.normal(size=6), generator.normal(size=(4, 6))
    expected = projection.project(own, others)
    np.testing.assert_allclose(projection.project(own, others * np.array([[scale], [1], [scale], [1]])), expected)
    np.testing.assert_allclose(projection.project(scale * own, others), scale * expected)


def test_including_the_own_gradient_changes_nothing_and_arguments_are_kept() -> None:
    generator = np.random.default_rng(1)
    own, others = generator.normal(size=7), generator.normal(size=(5, 7))
    before = own.copy(), others.copy()
    with_own = projection.project(own, np.vstack([others, own]))
    np.testing.assert_allclose(with_own, projection.project(own, others), atol=1e-12)
    assert np.array_equal(own, before[0])
    assert np.array_equal(others, before[1])


def test_no_neighbours_and_a_zero_gradient() -> None:
    own = np.array([1.0, 2.0])
    np.testing.assert_allclose(projection.project(own, np.empty((0, 2))), own)
    np.testing.assert_allclose(projection.project(own, np.zeros((3, 2))), own)
    assert not projection.project(np.zeros(2), np.ones((3, 2))).any()
