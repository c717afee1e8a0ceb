"""Perceptron: its layout, and the seeded initial parameters."""

import numpy as np
import pytest
from sottovoce.kernels.mlp import Perceptron


def test_an_example_matches_hand_computation() -> None:
    kernel = Perceptron(2, 2, 1)
    # U = (1, -1), a = 0.5, V = (2; -2), b = (0.25, -0.25): hidden tanh(x₁ - x₂ + 0.5), logits ±(2 tanh + 0.25)
    parameters = np.array([[1.0, -1.0, 0.5, 2.0, -2.0, 0.25, -0.25]])
    x = np.array([[0.5, 0.25], [-1.0, 0.5]])
    logits = 2 * np.tanh(x[:, 0] - x[:, 1] + 0.5) + 0.25
    assert kernel.size == 7
    assert kernel.predict(parameters, x).tolist() == [[0, 1]]
    expected = np.log1p(np.exp(-2 * logits)).mean()
    assert kernel.loss(parameters, x, np.array([0, 0]))[0] == pytest.approx(expected, rel=1e-14)


def test_the_public_start_is_equal_everywhere() -> None:
    """A fleet's devices may have different NumPy versions: these numbers must never change."""
    kernel = Perceptron(3, 2, 2)
    start = kernel.initial(42)
    layers = start[:6] / np.sqrt(6 / 5), start[6:8], start[8:12] / np.sqrt(6 / 4), start[12:]
    words = np.random.PCG64(42).random_raw(14)
    for layer, part in ((layers[0], words[:6]), (layers[2], words[8:12])):
        np.testing.assert_allclose(layer, (part / 2.0**63) - 1, rtol=1e-12)
    assert start[0].hex() == "0x1.334e6a1d59704p-1"
    assert start.tobytes() == kernel.initial(42).tobytes() != kernel.initial(43).tobytes()
    assert not layers[1].any()
    assert not layers[3].any()


def test_the_start_is_glorot_uniform() -> None:
    kernel = Perceptron(100, 10, 50)
    start = kernel.initial(1)
    U, V = start[:5000], start[5050:5550]
    for weights, widest in ((U, np.sqrt(6 / 150)), (V, np.sqrt(6 / 60))):
        assert np.abs(weights).max() < widest
        assert weights.std() == pytest.approx(widest / np.sqrt(3), rel=0.06)
