"""Q-network: its gradient against differences, and Adam against its authors' listing, number by number."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.errors import ConfigError
from sottovoce_lab.published.controller import Adam, QNetwork


def make_network(seed: int = 0, state_size: int = 3, hidden: int = 5) -> QNetwork:
    generator = np.random.default_rng(seed)
    shapes = [(state_size, hidden), (hidden,), (hidden, 2), (2,)]
    return QNetwork(*(generator.normal(size=shape) for shape in shapes))


def by_loops(network: QNetwork, state: NDArray[np.float64], action: int) -> float:
    A, a, B, b = network.arrays
    hidden = [sum(state[i] * A[i, h] for i in range(len(state))) + a[h] for h in range(len(a))]
    return float(sum(hidden[h] * B[h, action] for h in range(len(a))) + b[action])


def test_values_match_unit_by_unit() -> None:
    network, states = make_network(), np.random.default_rng(1).normal(size=(4, 3))
    expected = [[by_loops(network, state, action) for action in range(2)] for state in states]
    np.testing.assert_allclose(network.values(states), expected, rtol=1e-12)


def test_without_activation_values_are_affine() -> None:
    network = make_network()
    s, t = np.random.default_rng(2).normal(size=(2, 6, 3)) * 100
    np.testing.assert_allclose(network.values((s + t) / 2), (network.values(s) + network.values(t)) / 2, rtol=1e-9)


def test_the_gradient_matches_differences() -> None:
    network, generator = make_network(), np.random.default_rng(3)
    states, actions, targets = generator.normal(size=(7, 3)), generator.integers(0, 2, 7), generator.normal(size=7)

    def loss() -> float:
        chosen = zip(states, actions, targets, strict=True)
        return sum((float(y) - by_loops(network, state, int(action))) ** 2 for state, action, y in chosen) / 7

    gradient = network.gradient(states, actions, targets)
    for array, slopes in zip(network.arrays, gradient.arrays, strict=True):
        assert array.shape == slopes.shape
        for index in np.ndindex(array.shape):
            stored, h = array[index], 1e-5
            array[index] = stored + h
            above = loss()
            array[index] = stored - h
            below = loss()
            array[index] = stored
            assert slopes[index] == pytest.approx((above - below) / (2 * h), rel=1e-5, abs=1e-7)


def test_only_the_chosen_action_learns() -> None:
    states = np.random.default_rng(4).normal(size=(3, 3))
    gradient = make_network().gradient(states, np.array([1, 1, 1]), np.zeros(3))
    assert not gradient.output_weights[:, 0].any()
    assert gradient.output_weights[:, 1].all()
    assert gradient.output_biases[0] == 0


def test_xavier_initialisation() -> None:
    network = QNetwork.xavier(52, 128, np.random.default_rng(5))
    assert [array.shape for array in network.arrays] == [(52, 128), (128,), (128, 2), (2,)]
    assert all(array.dtype == np.float64 for array in network.arrays)
    for weights, units in ((network.hidden_weights, 180), (network.output_weights, 130)):
        bound = math.sqrt(6 / units)
        assert 0.95 * bound < np.abs(weights).max() <= bound
        assert weights.var() == pytest.approx(2 / units, rel=0.2)
    assert not network.hidden_biases.any()
    assert not network.output_biases.any()
    with pytest.raises(ConfigError, match="Q-network"):
        QNetwork.xavier(0, 128, np.random.default_rng(0))


def test_adam_follows_the_listing() -> None:
    network = make_network(6, 1, 1)
    memory = Adam.new(network)
    theta, m, v = float(network.hidden_weights[0, 0]), 0.0, 0.0
    for t in range(1, 30):
        gradient = make_network(100 + t, 1, 1)
        network, memory = memory.step(network, gradient, 0.01)
        g = float(gradient.hidden_weights[0, 0])
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        theta -= 0.01 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
        assert network.hidden_weights[0, 0] == pytest.approx(theta, rel=1e-10)
    assert memory.steps == 29


def test_a_step_modifies_nothing_in_place() -> None:
    network, gradient = make_network(7), make_network(8)
    memory = Adam.new(network)
    before = [array.copy() for array in (*network.arrays, *memory.first, *memory.second)]
    memory.step(network, gradient, 0.01)
    after = (*network.arrays, *memory.first, *memory.second)
    assert all(np.array_equal(old, new) for old, new in zip(before, after, strict=True))
