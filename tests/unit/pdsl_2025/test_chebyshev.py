"""Gossip recursions against Chebyshev polynomials of numpy, on rings and other symmetric mixing matrices."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.polynomial import chebyshev as series
from numpy.typing import NDArray
from sottovoce.errors import ConfigError
from sottovoce_papers.pdsl_2025 import chebyshev

Matrix = NDArray[np.float64]


def ring(agents: int) -> Matrix:
    W = np.eye(agents) / 3
    for shift in (1, -1):
        W += np.roll(np.eye(agents), shift, axis=1) / 3
    return W


def spectral_gap(W: Matrix) -> float:
    return 1 - float(np.sort(np.abs(np.linalg.eigvalsh(W)))[-2])


def gossip(W: Matrix, start: Matrix, coefficients: NDArray[np.float64]) -> Matrix:
    previous = current = start
    for c in coefficients:
        previous, current = current, chebyshev.step(W @ current, previous, float(c))
    return current


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 12])
def test_acceleration_is_the_chebyshev_polynomial(steps: int) -> None:
    W = ring(9)
    reach = 1 - spectral_gap(W)
    values, vectors = np.linalg.eigh(W)
    polynomial = [0.0] * steps + [1.0]
    shrunk = series.chebval(values / reach, polynomial) / series.chebval(1 / reach, polynomial)
    start = np.random.default_rng(steps).normal(size=(9, 2))
    wanted = vectors @ (shrunk[:, np.newaxis] * (vectors.T @ start))
    np.testing.assert_allclose(
        gossip(W, start, chebyshev.accelerated_coefficients(spectral_gap(W), steps)), wanted, atol=1e-12
    )


def test_plain_gossip_is_a_power_of_the_matrix() -> None:
    W, start = ring(6), np.random.default_rng(0).normal(size=(6, 3))
    np.testing.assert_allclose(
        gossip(W, start, chebyshev.plain_coefficients(5)), np.linalg.matrix_power(W, 5) @ start, atol=1e-14
    )


@given(st.floats(1e-4, 1), st.integers(0, 40), st.integers(0, 2**32))
def test_the_sum_over_agents_stays(gap: float, steps: int, seed: int) -> None:
    """The sum is unchanged for any coefficients and any symmetric doubly stochastic matrix."""
    generator = np.random.default_rng(seed)
    W = np.eye(5)
    for _ in range(3):
        swap = np.eye(5)[generator.permutation(5)]
        W = W / 2 + (swap + swap.T) / 4
    start = generator.normal(size=(5, 2))
    for coefficients in (chebyshev.plain_coefficients, lambda s: chebyshev.accelerated_coefficients(gap, s)):
        mixed = gossip(W, start, coefficients(steps))
        np.testing.assert_allclose(mixed.sum(axis=0), start.sum(axis=0), atol=1e-9 * max(1, np.abs(mixed).max()))


@pytest.mark.parametrize("agents", [20, 41])
def test_acceleration_pays(agents: int) -> None:
    W, steps = ring(agents), 3 * agents
    start = np.random.default_rng(1).normal(size=(agents, 4))
    error = {
        name: float(np.linalg.norm(gossip(W, start, coefficients) - start.mean(axis=0)))
        for name, coefficients in (
            ("plain", chebyshev.plain_coefficients(steps)),
            ("accelerated", chebyshev.accelerated_coefficients(spectral_gap(W), steps)),
        )
    }
    assert error["accelerated"] < error["plain"] / 10
    bound = 1 / math.cosh(steps * math.acosh(1 / (1 - spectral_gap(W))))
    assert error["accelerated"] <= bound * np.linalg.norm(start - start.mean(axis=0)) * (1 + 1e-6)


def test_coefficients_grow_from_none_and_stay_below_one() -> None:
    coefficients = chebyshev.accelerated_coefficients(0.01, 500)
    assert coefficients[0] == 0
    assert coefficients[1] == pytest.approx(2 / (2 - 0.99**2) - 1)
    assert (coefficients < 1).all()
    assert not chebyshev.accelerated_coefficients(1.0, 5).any(), "one step of a complete graph averages"
    assert chebyshev.accelerated_coefficients(0.3, 0).size == 0


@pytest.mark.parametrize("gap", [0.0, -0.1, 1.1, math.nan])
def test_no_gap(gap: float) -> None:
    with pytest.raises(ConfigError, match="spectral gap"):
        chebyshev.accelerated_coefficients(gap, 3)
