"""Shapley values of neighbours' gradients (PDSL 2025, eqs. 16-20): the part of each in the score of an average.

The players are the n = |N_i| agents of a neighbourhood, agent i included, numbered from 0. A coalition S is worth v(S),
in PDSL the accuracy of the mean ȳ_S of its candidates on public data; on private data every value is a release.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError

EXACT_AT_MOST = 12
"""Players, beyond which the 2ⁿ coalitions are too many for a device."""

SAMPLED_AT_MOST = 62
"""Players whose coalitions are the bits of one number."""

_CHUNK = 2**21  # numbers in a stack of averages: 16 MiB

Value = Callable[[frozenset[int]], float]
Score = Callable[[NDArray[np.float64]], NDArray[np.float64]]
Worth = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""Function of coalitions, each a bit mask."""


def exact(value: Value, players: int) -> NDArray[np.float64]:
    """φ_j = Σ_{S ∌ j} |S|! (n-|S|-1)!/n! · (v(S+j) - v(S)), eq. (18).

    Args:
        value: v, called once for each of the 2ⁿ coalitions, the empty one included.
        players: n.

    Returns:
        φ, float64[n]; it adds up to v(all) - v(none).

    Raises:
        ConfigError: if there are more than EXACT_AT_MOST players, or none.
    """
    return exact_of(_one_by_one(value), players)


def exact_game(candidates: NDArray[np.float64], score: Score) -> NDArray[np.float64]:
    """`exact` for `coalition_game(candidates, score)`, float64[n], with many coalitions to a call of the score."""
    return exact_of(stacked(candidates, score), len(candidates))


def monte_carlo(
    value: Value, players: int, permutations: int, generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Algorithm 2: the mean, over random orders of arrival, of each player's gain on arrival.

    Args:
        value: v, called once for each coalition that occurs.
        players: n.
        permutations: R, orders that are drawn.
        generator: draws them.

    Returns:
        φ and its standard error, float64[n] each; whatever is drawn, φ adds up to v(all) - v(none).

    Raises:
        ConfigError: for fewer than 2 permutations, more than SAMPLED_AT_MOST players, or none.
    """
    return monte_carlo_of(_one_by_one(value), players, permutations, generator)


def monte_carlo_game(
    candidates: NDArray[np.float64], score: Score, permutations: int, generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`monte_carlo` for `coalition_game(candidates, score)`, with many coalitions to a call of the score."""
    return monte_carlo_of(stacked(candidates, score), len(candidates), permutations, generator)


def coalition_game(candidates: NDArray[np.float64], score: Score) -> Value:
    """The game of eqs. (16), (17): v(S) is the score of the mean of the members' candidates, and v(none) = 0.

    Args:
        candidates: float64[n,P], y_ij = x_i - γ·g_{i←j}, one row a player.
        score: score of parameter vectors float64[m,P], float64[m].
    """
    worth = stacked(candidates, score)
    return lambda members: float(worth(np.array([sum(1 << member for member in members)]))[0])


def normalised(phi: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mixing weights from values: max(φ, 0)/Σ, all equal where no value is positive; float64[n].

    The published text of eqs. (19), (20) is lost; this is a reconstruction, as are others one might choose.
    """
    positive = np.maximum(phi, 0.0)
    total = positive.sum()
    weights: NDArray[np.float64] = positive / total if total > 0 else np.full(len(phi), 1 / len(phi))
    return weights


def _one_by_one(value: Value) -> Worth:
    def members(mask: int) -> frozenset[int]:
        return frozenset(player for player in range(mask.bit_length()) if mask >> player & 1)

    return lambda masks: np.array([value(members(mask)) for mask in masks.tolist()], dtype=np.float64)


def stacked(candidates: NDArray[np.float64], score: Score) -> Worth:
    """The worth of coalitions in `coalition_game(candidates, score)`, many to a call of the score."""
    rows = max(1, _CHUNK // candidates.shape[1])

    def worth(masks: NDArray[np.int64]) -> NDArray[np.float64]:
        values = np.zeros(len(masks))
        filled = np.flatnonzero(masks)
        for chosen in (filled[start : start + rows] for start in range(0, len(filled), rows)):
            members = masks[chosen, np.newaxis] >> np.arange(len(candidates)) & 1
            values[chosen] = score(members / members.sum(axis=1, keepdims=True) @ candidates)
        return values

    return worth


def exact_of(worth: Worth, players: int) -> NDArray[np.float64]:
    """`exact` of a game that values many coalitions at once."""
    if not 1 <= players <= EXACT_AT_MOST:
        raise ConfigError(
            f"exact Shapley values are for 1 to {EXACT_AT_MOST} players, not {players}: choose monte-carlo, or a "
            f"topology with fewer neighbours"
        )
    masks = np.arange(1 << players)
    values = worth(masks)
    shares = np.array([1 / (players * math.comb(players - 1, size)) for size in range(players)])
    phi = np.empty(players)
    for player in range(players):
        without = masks[masks >> player & 1 == 0]
        phi[player] = shares[np.bitwise_count(without)] @ (values[without | 1 << player] - values[without])
    return phi


def monte_carlo_of(
    worth: Worth, players: int, permutations: int, generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`monte_carlo` of a game that values many coalitions at once."""
    if not 1 <= players <= SAMPLED_AT_MOST or permutations < 2:
        raise ConfigError(
            f"Shapley values are sampled from 2 permutations or more of 1 to {SAMPLED_AT_MOST} players, not from "
            f"{permutations} of {players}: choose more permutations, or a topology with fewer neighbours"
        )
    orders = generator.permuted(np.tile(np.arange(players), (permutations, 1)), axis=1)
    met = np.zeros((permutations, players + 1), dtype=np.int64)
    np.cumsum(np.left_shift(1, orders), axis=1, out=met[:, 1:])
    masks, place = np.unique(met, return_inverse=True)
    values = worth(masks)[place.reshape(met.shape)]
    added = np.empty((permutations, players))
    np.put_along_axis(added, orders, np.diff(values, axis=1), axis=1)
    return added.mean(axis=0), added.std(axis=0, ddof=1) / math.sqrt(permutations)
