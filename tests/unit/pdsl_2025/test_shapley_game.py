"""Game of averages against one coalition at a time, and weights made of its values."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from sottovoce_papers.pdsl_2025 import shapley

from tests.unit.pdsl_2025.games import make_worth


def nearness(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """A score that is no sum over members."""
    scores: NDArray[np.float64] = np.exp(-np.abs(points).sum(axis=1))
    return scores


@pytest.mark.parametrize("players", [1, 4, 10])
def test_the_game_of_averages_comes_out_the_same_in_chunks(players: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapley, "_CHUNK", 7 * 3)
    candidates = np.random.default_rng(players).normal(size=(players, 3))
    sizes: list[int] = []

    def score(points: NDArray[np.float64]) -> NDArray[np.float64]:
        sizes.append(len(points))
        return nearness(points)

    phi = shapley.exact(shapley.batched_worth(candidates, score), players)
    assert sum(sizes) == 2**players - 1, "every coalition but the empty one"
    assert max(sizes) <= 7
    assert len(sizes) == math.ceil((2**players - 1) / 7)

    def by_hand(members: frozenset[int]) -> float:
        return float(nearness(candidates[sorted(members)].mean(axis=0)[np.newaxis])[0]) if members else 0.0

    np.testing.assert_allclose(phi, shapley.exact(make_worth(by_hand), players), atol=1e-12)
    sampled, error = shapley.monte_carlo(
        shapley.batched_worth(candidates, nearness), players, 60, np.random.default_rng(2)
    )
    wanted = shapley.monte_carlo(make_worth(by_hand), players, 60, np.random.default_rng(2))
    np.testing.assert_allclose((sampled, error), wanted, atol=1e-12)
    worth = shapley.batched_worth(candidates, nearness)
    assert worth(np.array([0])).tolist() == [0]
    for members in (frozenset({0}), frozenset(range(players)), frozenset({players - 1, 0})):
        mask = np.array([sum(1 << member for member in members)])
        assert worth(mask).tolist() == [pytest.approx(by_hand(members), abs=1e-14)]


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12))
def test_weights_are_shares_of_what_is_positive(phi: list[float]) -> None:
    weights = shapley.mixing_weights(np.array(phi))
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert (weights >= 0).all()
    if max(phi) <= 0:
        assert (weights == 1 / len(phi)).all()
    else:
        visible = [value > 0 and value / max(phi) > 1e-290 for value in phi]  # smaller shares may be rounded to 0
        assert all(weight > 0 for weight, seen in zip(weights, visible, strict=True) if seen) or max(phi) < 1e-290
        assert all(weight == 0 for weight, value in zip(weights, phi, strict=True) if value <= 0)
        assert (np.argsort(weights, kind="stable")[-1]) in np.flatnonzero(np.array(phi) == max(phi))
    assert shapley.mixing_weights(np.array([3.0, -1.0, 1.0])).tolist() == [0.75, 0, 0.25]
