"""Shapley values of neighbours' gradients (PDSL 2025, eqs. 16-20): how much each one contributes to an average's score.

The players are the n = |N_i| agents in a neighbourhood, numbered from 0 and including agent i. A coalition S has the
worth v(S), which in PDSL is the accuracy on public data of its candidates' mean ȳ_S. On private data, every value would
be a release.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError

MAX_EXACT_PLAYERS = 12
"""Maximum number of players for which a device can evaluate all 2ⁿ coalitions."""

MAX_SAMPLED_PLAYERS = 62
"""Maximum number of players for which a coalition fits into one integer as a bit mask."""

_CHUNK = 2**21  # values in one stack of averages: 16 MiB

Score = Callable[[NDArray[np.float64]], NDArray[np.float64]]
Worth = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""Maps coalitions, given as bit masks, to their worth."""


def mixing_weights(phi: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return mixing weights from Shapley values, float64[n]: max(φ, 0)/Σ, or equal weights if no value is positive.

    The text of eqs. (19), (20) is missing from the publication, and this is only one possible reconstruction.
    """
    positive = np.maximum(phi, 0.0)
    total = positive.sum()
    weights: NDArray[np.float64] = positive / total if total > 0 else np.full(len(phi), 1 / len(phi))
    return weights


def batched_worth(candidates: NDArray[np.float64], score: Score) -> Worth:
    """Return the worth in eqs. (16), (17), where v(S) is the score of the members' mean candidate, and v(∅) = 0.

    Args:
        candidates: float64[n,P], y_ij = x_i - γ·g_{i←j}, one row per player.
        score: maps parameter vectors float64[m,P] to their scores float64[m]; called with many coalitions' means.
    """
    rows = max(1, _CHUNK // candidates.shape[1])

    def worth(masks: NDArray[np.int64]) -> NDArray[np.float64]:
        values = np.zeros(len(masks))
        non_empty = np.flatnonzero(masks)
        for batch in (non_empty[start : start + rows] for start in range(0, len(non_empty), rows)):
            members = masks[batch, np.newaxis] >> np.arange(len(candidates)) & 1
            values[batch] = score(members / members.sum(axis=1, keepdims=True) @ candidates)
        return values

    return worth


def exact(worth: Worth, players: int) -> NDArray[np.float64]:
    """Return φ_j = Σ_{S ∌ j} |S|! (n-|S|-1)!/n! · (v(S+j) - v(S)), eq. (18).

    Args:
        worth: v, called once with all 2ⁿ coalitions, including the empty one.
        players: the number of players n.

    Returns:
        φ, float64[n]; its sum is v(all) - v(∅).

    Raises:
        ConfigError: if there are no players, or more than MAX_EXACT_PLAYERS.
    """
    if not 1 <= players <= MAX_EXACT_PLAYERS:
        raise ConfigError(
            f"exact Shapley values need 1 to {MAX_EXACT_PLAYERS} players, not {players}: choose monte-carlo, or a "
            f"topology with fewer neighbours"
        )
    masks = np.arange(1 << players)
    values = worth(masks)
    shares = np.array([1 / (players * math.comb(players - 1, size)) for size in range(players)])
    phi = np.empty(players)
    for player in range(players):
        without_player = masks[masks >> player & 1 == 0]
        phi[player] = shares[np.bitwise_count(without_player)] @ (
            values[without_player | 1 << player] - values[without_player]
        )
    return phi


def monte_carlo(
    worth: Worth, players: int, permutations: int, generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Run Algorithm 2, which averages each player's gain on arrival over random orders of arrival.

    Args:
        worth: v, called once with all coalitions that occur.
        players: the number of players n.
        permutations: the number R of random orders.
        generator: the source of the random orders.

    Returns:
        φ and its standard error, float64[n] each; φ sums to v(all) - v(∅) for any orders.

    Raises:
        ConfigError: if there are fewer than 2 permutations, no players, or more than MAX_SAMPLED_PLAYERS.
    """
    if not 1 <= players <= MAX_SAMPLED_PLAYERS or permutations < 2:
        raise ConfigError(
            f"sampled Shapley values need at least 2 permutations of 1 to {MAX_SAMPLED_PLAYERS} players, not "
            f"{permutations} of {players}: choose more permutations, or a topology with fewer neighbours"
        )
    orders = generator.permuted(np.tile(np.arange(players), (permutations, 1)), axis=1)
    prefixes = np.zeros((permutations, players + 1), dtype=np.int64)
    np.cumsum(np.left_shift(1, orders), axis=1, out=prefixes[:, 1:])
    masks, inverse = np.unique(prefixes, return_inverse=True)
    values = worth(masks)[inverse.reshape(prefixes.shape)]
    gains = np.empty((permutations, players))
    np.put_along_axis(gains, orders, np.diff(values, axis=1), axis=1)
    return gains.mean(axis=0), gains.std(axis=0, ddof=1) / math.sqrt(permutations)
