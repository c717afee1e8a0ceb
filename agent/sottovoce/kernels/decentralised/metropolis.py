"""Metropolis mixing weights, from degrees that neighbours tell one another: no coordinator knows the graph.

With w_ij = 1/(1 + max(deg_i, deg_j)) on edges and the rest for oneself, the mixing matrix is symmetric and doubly
stochastic on any undirected graph (Xiao, Boyd & Kim 2007).
"""

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

from sottovoce.errors import ConfigError

Peer = TypeVar("Peer", bound=Hashable)


def weight(own_degree: int, other_degree: int) -> float:
    """w_ij of an edge; both of its ends compute the same number.

    Args:
        own_degree: neighbours of i, without i itself.
        other_degree: neighbours of j.

    Raises:
        ConfigError: if the end of an edge has no neighbour.
    """
    if own_degree < 1 or other_degree < 1:
        raise ConfigError("a node with a neighbour has a degree of 1 or more: count each agent's neighbours again")
    return 1 / (1 + max(own_degree, other_degree))


def weights(own_degree: int, degrees: Mapping[Peer, int]) -> tuple[float, dict[Peer, float]]:
    """The row of the mixing matrix of one agent.

    Args:
        own_degree: its neighbours in the graph.
        degrees: the degree of each neighbour that is there this round; the weight of any other goes to the agent.

    Returns:
        the agent's weight for itself, which is positive, and those for `degrees`. Their exact sum rounds to 1.

    Raises:
        ConfigError: if there are more neighbours than the degree, or one of degree 0.
    """
    if len(degrees) > own_degree:
        raise ConfigError(
            f"{len(degrees)} neighbours are there where the degree is {own_degree}: tell all of them the new degree"
        )
    others = {peer: weight(own_degree, degree) for peer, degree in degrees.items()}
    return math.fsum([1.0, *(-share for share in others.values())]), others
