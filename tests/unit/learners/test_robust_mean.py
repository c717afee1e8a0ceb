"""Robust mean: it stays near the honest vectors whatever a quarter of the vectors are, and costs little otherwise."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from sottovoce.algorithms.contributions.public.robust import LONGEST, robust_mean, vector_weights

SIZE = 60


def compute_mean(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return robust_mean(vectors, np.ones(len(vectors)), len(vectors) // 4)


def honest(count: int, seed: int, signal: float = 1.0) -> NDArray[np.float64]:
    """Return noise of about length 1 around one point."""
    random = np.random.default_rng(seed)
    vectors: NDArray[np.float64] = random.normal(0, 1 / np.sqrt(SIZE), (count, SIZE))
    vectors[:, 0] += signal
    return vectors


@pytest.mark.parametrize("count, more", [(1, 1.0), (3, 1.0), (4, 1.5), (8, 1.15), (12, 1.1), (40, 1.05)])
def test_without_an_attack_it_nearly_equals_the_mean(count: int, more: float) -> None:
    """Averaged over noise draws: its squared distance from the truth, compared with the mean's."""
    truth = np.eye(SIZE)[0]
    drawn = [honest(count, seed) for seed in range(200)]
    result = sum(float(((compute_mean(vectors) - truth) ** 2).sum()) for vectors in drawn)
    mean = sum(float(((vectors.mean(axis=0) - truth) ** 2).sum()) for vectors in drawn)
    assert result <= more * mean * (1 + 1e-9)


@given(count=st.integers(4, 40), seed=st.integers(0, 99), size=st.floats(0, 12), alike=st.booleans(), data=st.data())
def test_a_quarter_of_the_vectors_cannot_displace_it(
    count: int, seed: int, size: float, alike: bool, data: st.DataObject
) -> None:
    bad = data.draw(st.integers(1, count // 4))
    random, vectors = np.random.default_rng(seed), honest(count, seed)
    direction = random.normal(size=(1 if alike else bad, SIZE))
    vectors[:bad] = 10.0**size * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    mean = vectors[bad:].mean(axis=0)
    assert np.linalg.norm(compute_mean(vectors) - mean) <= 1.2, "slightly more than an honest vector's distance"


@given(count=st.integers(2, 3), seed=st.integers(0, 99), size=st.floats(1, 12))
def test_among_two_or_three_vectors_the_others_bound_each_one(count: int, seed: int, size: float) -> None:
    vectors = honest(count, seed)
    vectors[0] *= 10.0**size
    assert np.linalg.norm(compute_mean(vectors)) <= 2 * np.linalg.norm(vectors[1:], axis=1).max()


@given(count=st.integers(1, 12), seed=st.integers(0, 99))
def test_order_has_no_effect(count: int, seed: int) -> None:
    vectors = honest(count, seed)
    shuffled = np.random.default_rng(seed).permutation(vectors)
    np.testing.assert_allclose(compute_mean(shuffled), compute_mean(vectors), atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_equal_vectors_are_their_own_mean(count: int) -> None:
    vectors = np.tile(honest(1, 3), (count, 1))
    np.testing.assert_allclose(compute_mean(vectors), vectors[0], atol=1e-12)
    assert not compute_mean(np.zeros((count, SIZE))).any()


def test_distant_vectors_count_nothing_and_near_ones_in_full() -> None:
    vectors = honest(12, 1)
    vectors[:3] = 30 * np.eye(SIZE)[1]
    assert vector_weights(vectors, 3).tolist()[:3] == [0.0, 0.0, 0.0]
    assert (vector_weights(vectors, 3)[3:] > 0.5).all()
    assert (vector_weights(honest(3, 1), 0) == 1).all()


def test_no_matrix_counts_for_more_than_a_multiple_of_the_median_singular_value() -> None:
    """A vector of rank one and of honest length moves the mean by its largest singular value, which is cut."""
    random, shape = np.random.default_rng(6), (40, 10)
    vectors: NDArray[np.float64] = random.normal(size=(10, 400))
    coherent = np.outer(random.normal(size=40), random.normal(size=10)).ravel()
    direction = coherent / np.linalg.norm(coherent)
    vectors[3] = direction * np.linalg.norm(vectors[4])
    largest = [np.linalg.svd(vector.reshape(shape), compute_uv=False)[0] for vector in vectors]
    shift = direction @ (10 * robust_mean(vectors, np.ones(10), 0, [shape]) - np.delete(vectors, 3, axis=0).sum(axis=0))
    assert shift == pytest.approx(LONGEST * np.sort(largest)[4], rel=1e-6)
    assert shift < 0.75 * np.linalg.norm(vectors[3])


@pytest.mark.parametrize("shapes", [[(40, 10)], [(10, 40)], [(8, 10), (20, 2, 8)], [(400,)]])
def test_alike_matrices_keep_every_bit(shapes: list[tuple[int, ...]]) -> None:
    vectors: NDArray[np.float64] = np.random.default_rng(7).normal(size=(10, 400))
    assert np.array_equal(robust_mean(vectors, np.ones(10), 0, shapes), robust_mean(vectors, np.ones(10), 0))
