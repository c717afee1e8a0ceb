"""Coalitions' values: the accuracy of their candidates' mean, by any computation."""

import numpy as np
import pytest
from sottovoce.kernels import Kernel, kernel_named
from sottovoce_papers.pdsl_2025.shapley import AccuracyGame

MODELS = [("softmax", 3), ("mlp", 4), ("logistic", 2)]


def draw_game(
    name: str, classes: int
) -> tuple[Kernel, AccuracyGame, np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    rng = np.random.default_rng(3)
    kernel = kernel_named(name, 5, classes, 6)
    game = AccuracyGame(kernel, rng.normal(size=(211, 5)), rng.integers(0, classes, 211))
    return kernel, game, rng.normal(size=(6, kernel.size))


@pytest.mark.parametrize("name, classes", MODELS)
def test_the_value_is_the_mean_s_accuracy(name: str, classes: int) -> None:
    kernel, game, candidates = draw_game(name, classes)
    values = game.worth(candidates)(np.arange(64))
    assert values[0] == 0.0
    for mask in range(1, 64):
        members = [player for player in range(6) if mask >> player & 1]
        mean = candidates[members].mean(axis=0)
        expected = (kernel.predict(mean[np.newaxis], game.features)[0] == game.labels).mean()
        assert values[mask] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name, classes", MODELS)
def test_chunk_size_has_no_effect(name: str, classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, game, candidates = draw_game(name, classes)
    full = game.worth(candidates)(np.arange(64))
    monkeypatch.setattr("sottovoce_papers.pdsl_2025.shapley._CHUNK", 1)
    assert game.worth(candidates)(np.arange(64)).tolist() == full.tolist()
