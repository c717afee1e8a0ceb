"""Metropolis weights, as each agent computes its own, assembled into a matrix."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from sottovoce.errors import ConfigError
from sottovoce.kernels.decentralised import mixing


def matrix(edges: set[tuple[int, int]], agents: int) -> NDArray[np.float64]:
    neighbours = {i: [j for j in range(agents) if (i, j) in edges or (j, i) in edges] for i in range(agents)}
    W = np.zeros((agents, agents))
    for i, around in neighbours.items():
        W[i, i], others = mixing.weights(len(around), {j: len(neighbours[j]) for j in around})
        for j, share in others.items():
            W[i, j] = share
    return W


def test_a_path_of_three() -> None:
    third = 1 / 3
    np.testing.assert_allclose(
        matrix({(0, 1), (1, 2)}, 3), [[2 * third, third, 0], [third, third, third], [0, third, 2 * third]]
    )


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_weights_are_symmetric_and_doubly_stochastic_on_any_graph(graph: tuple[int, set[tuple[int, int]]]) -> None:
    agents, pairs = graph
    W = matrix({(a, b) for a, b in pairs if a != b}, agents)
    assert np.array_equal(W, W.T)
    assert (W.diagonal() > 0).all()
    assert [math.fsum(row) for row in W] == [1.0] * agents
    eigenvalues = np.linalg.eigvalsh(W)
    assert eigenvalues[0] > -1
    assert eigenvalues[-1] < 1 + 1e-12


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=40), st.integers(0, 100))
def test_a_row_sums_to_one_within_floating_point_accuracy(degrees: list[int], absent: int) -> None:
    own, others = mixing.weights(len(degrees) + absent, dict(enumerate(degrees)))
    exact = sum(map(Fraction, others.values()), Fraction(own))
    assert abs(exact - 1) <= Fraction(1, 2**54)
    assert math.fsum([own, *others.values()]) == 1.0
    assert own > 0


def test_an_absent_neighbour_leaves_its_weight() -> None:
    own, others = mixing.weights(3, {"b": 2, "c": 5, "d": 3})
    alone, there = mixing.weights(3, {"b": 2, "d": 3})
    assert there == {"b": others["b"], "d": others["d"]}
    assert alone == pytest.approx(own + others["c"], abs=1e-15)
    assert mixing.weights(3, {}) == (1.0, {})
    assert mixing.weights(0, {}) == (1.0, {})


def test_both_ends_compute_the_same_weight() -> None:
    assert mixing.weight(4, 9) == mixing.weight(9, 4) == 0.1


def test_invalid_degrees_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"2 neighbours.*\b1\b"):
        mixing.weights(1, {"a": 1, "b": 1})
    with pytest.raises(ConfigError, match=r"degree.*\b1\b"):
        mixing.weights(2, {"a": 0})
