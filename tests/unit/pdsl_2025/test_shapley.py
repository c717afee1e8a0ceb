"""Shapley values against the average over all orders, and their axioms."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sottovoce.errors import ConfigError
from sottovoce_papers.pdsl_2025 import shapley

from tests.unit.pdsl_2025.games import Value, make_worth

Coalition = frozenset[int]


def over_all_orders(value: Value, players: int) -> list[float]:
    phi = [0.0] * players
    for order in itertools.permutations(range(players)):
        met: Coalition = frozenset()
        for player in order:
            phi[player] += value(met | {player}) - value(met)
            met |= {player}
    return [total / math.factorial(players) for total in phi]


def table_game(players: int, seed: int) -> Value:
    generator = np.random.default_rng(seed)
    table = {
        frozenset(members): float(generator.normal())
        for size in range(players + 1)
        for members in itertools.combinations(range(players), size)
    }
    return table.__getitem__


def test_the_published_vector() -> None:
    table = {(): 0.0, (0,): 0.6, (1,): 0.5, (2,): 0.1, (0, 1): 0.72, (0, 2): 0.55, (1, 2): 0.48, (0, 1, 2): 0.70}
    phi = shapley.exact(make_worth(lambda members: table[tuple(sorted(members))]), 3)
    np.testing.assert_allclose(phi, [0.385, 0.3, 0.015], rtol=0, atol=1e-12)


@given(st.integers(1, 6), st.integers(0, 2**32))
@settings(max_examples=30)
def test_exact_is_the_average_over_all_orders(players: int, seed: int) -> None:
    value = table_game(players, seed)
    phi = shapley.exact(make_worth(value), players)
    np.testing.assert_allclose(phi, over_all_orders(value, players), rtol=0, atol=1e-12)
    assert phi.dtype == np.float64


@given(st.integers(1, 8), st.integers(0, 2**32), st.integers(2, 30))
@settings(max_examples=30)
def test_values_add_up_to_what_all_are_worth(players: int, seed: int, permutations: int) -> None:
    value = table_game(players, seed)
    worth = value(frozenset(range(players))) - value(frozenset())
    assert shapley.exact(make_worth(value), players).sum() == pytest.approx(worth, abs=1e-12)
    phi, _ = shapley.monte_carlo(make_worth(value), players, permutations, np.random.default_rng(seed))
    assert phi.sum() == pytest.approx(worth, abs=1e-12)


def test_who_adds_nothing_is_worth_nothing_and_twins_are_worth_the_same() -> None:
    phi = shapley.exact(make_worth(lambda members: float(len(members & {0, 2}) == 2) + 3.0 * (4 in members)), 5)
    np.testing.assert_allclose(phi, [0.5, 0, 0.5, 0, 3], atol=1e-14)


def test_each_coalition_is_asked_for_once() -> None:
    asked: list[Coalition] = []

    def value(members: Coalition) -> float:
        asked.append(members)
        return float(len(members))

    np.testing.assert_allclose(shapley.exact(make_worth(value), 7), np.ones(7), atol=1e-12)
    assert len(asked) == len(set(asked)) == 2**7
    asked.clear()
    shapley.monte_carlo(make_worth(value), 7, 200, np.random.default_rng(0))
    assert len(asked) == len(set(asked)) <= 2**7


def test_sampling_comes_within_its_standard_error() -> None:
    value = table_game(5, 3)
    wanted = shapley.exact(make_worth(value), 5)
    distances = []
    for seed in range(200):
        phi, error = shapley.monte_carlo(make_worth(value), 5, 100, np.random.default_rng(seed))
        distances.append((phi - wanted) / error)
    scores = np.array(distances)
    assert np.abs(scores.mean(axis=0)).max() < 4 / math.sqrt(200), "no bias"
    assert 0.85 < scores.std() < 1.15, "the stated error is the real one"
    assert np.abs(scores).max() < 5


def test_sampling_is_determined_by_the_generator() -> None:
    value = table_game(6, 1)
    one, again = (shapley.monte_carlo(make_worth(value), 6, 50, np.random.default_rng(9)) for _ in range(2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one[0], shapley.monte_carlo(make_worth(value), 6, 50, np.random.default_rng(10))[0])


def test_the_largest_neighbourhood_that_can_be_sampled() -> None:
    phi, error = shapley.monte_carlo(make_worth(lambda members: float(61 in members)), 62, 10, np.random.default_rng(0))
    assert phi.tolist() == [0.0] * 61 + [1.0]
    assert not error.any()


@pytest.mark.parametrize("players", [0, 13])
def test_too_many_players_for_exact_values(players: int) -> None:
    with pytest.raises(ConfigError, match=f"1 to 12 players, not {players}: choose monte-carlo"):
        shapley.exact(make_worth(lambda members: 0.0), players)


@pytest.mark.parametrize("players, permutations", [(0, 5), (63, 5), (3, 1)])
def test_what_cannot_be_sampled(players: int, permutations: int) -> None:
    with pytest.raises(ConfigError, match=f"not {permutations} of {players}"):
        shapley.monte_carlo(make_worth(lambda members: 0.0), players, permutations, np.random.default_rng(0))
