"""Metropolis weights for mixing with neighbours.

With w_ij = 1/(1 + max(deg_i, deg_j)) on edges and the remaining weight on the agent itself, the mixing matrix is
symmetric and doubly stochastic on any undirected graph (Xiao, Boyd & Kim 2007).
"""

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

from sottovoce.errors import ConfigError

Peer = TypeVar("Peer", bound=Hashable)


def weight(own_degree: int, other_degree: int) -> float:
    """Return the weight w_ij of an edge, which is the same at both ends.

    Args:
        own_degree: the number of i's neighbours, excluding i itself.
        other_degree: the number of j's neighbours.

    Raises:
        ConfigError: if either end of the edge has no neighbours.
    """
    if own_degree < 1 or other_degree < 1:
        raise ConfigError(
            "a node with neighbours needs a degree of at least 1, but has less: count each agent's neighbours again"
        )
    return 1 / (1 + max(own_degree, other_degree))


def weights(own_degree: int, degrees: Mapping[Peer, int]) -> tuple[float, dict[Peer, float]]:
    """Return an agent's row in the mixing matrix.

    Args:
        own_degree: the number of the agent's neighbours in the graph.
        degrees: the degree of each neighbour present in this round; an absent neighbour's weight goes to the agent.

    Returns:
        The agent's weight for itself, which is positive, and its weights for `degrees`. The exact sum rounds to 1.

    Raises:
        ConfigError: if there are more neighbours than the degree states, or a neighbour has degree 0.
    """
    if len(degrees) > own_degree:
        raise ConfigError(
            f"there are {len(degrees)} neighbours, but the degree is {own_degree}: send all of them the new degree"
        )
    peer_weights = {peer: weight(own_degree, degree) for peer, degree in degrees.items()}
    return math.fsum([1.0, *(-peer_weight for peer_weight in peer_weights.values())]), peer_weights
