"""Mixing with peers: Metropolis weights, plain and accelerated gossip, and gradient tracking.

With w_ij = 1/(1 + max(deg_i, deg_j)) on edges and the remaining weight on the agent itself, the mixing matrix is
symmetric and doubly stochastic on any undirected graph (Xiao, Boyd & Kim 2007).

The recurrence of accelerated gossip (Muffliato: Cyffers, Even, Bellet & Massoulié 2022, Algorithm 1) is x^(s+1) = (1 +
c_s) W x^s - c_s x^(s-1), with x^(-1) = x^0 and c_0 = 0. After S steps it has applied a polynomial of degree S in W. W
is symmetric and doubly stochastic, so every choice of c preserves the sum over agents. The gap of W is 1 - max(|λ₂|,
|λ_n|), in (0, 1]. Coefficients are float64[S] and public: anyone who knows the graph can compute them.
"""

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

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


def step(mixed: NDArray[np.float64], previous: NDArray[np.float64], coefficient: float) -> NDArray[np.float64]:
    """Return x^(s+1) for one agent.

    Args:
        mixed: Σ_j w_ij x_j^s, of any shape.
        previous: the agent's own x^(s-1), of the same shape; arbitrary at the first step, since c_0 = 0.
        coefficient: c_s.
    """
    return (1 + coefficient) * mixed - coefficient * previous


def plain_coefficients(steps: int) -> NDArray[np.float64]:
    """Return the coefficients c = 0, for gossip without acceleration: x^(s+1) = W x^s.

    Each step scales the error by 1 - gap.
    """
    return np.zeros(steps)


def accelerated_coefficients(gap: float, steps: int) -> NDArray[np.float64]:
    """Return the coefficients of the polynomial T_S(·/λ)/T_S(1/λ), λ = 1 - gap.

    This polynomial has the smallest worst-case error in S steps. The formula 1 + c_s = 2 T_s(1/λ)/(λ T_(s+1)(1/λ))
    follows from T_(s+1)(y) = 2y T_s(y) - T_(s-1)(y), which gives 1 + c_1 = 2/(2 - λ²) and
    1 + c_s = 1/(1 - λ²(1 + c_(s-1))/4) (Golub & Varga 1961; on graphs Scaman, Bach, Bubeck, Lee & Massoulié 2017).

    Raises:
        ConfigError: if the gap is not in (0, 1].
    """
    square = (1 - _validate_gap(gap)) ** 2
    coefficients = np.zeros(steps)
    factor = 2.0
    for s in range(1, steps):
        factor = 1 / (1 - square * factor / 4)
        coefficients[s] = factor - 1
    return coefficients


def _validate_gap(gap: float) -> float:
    if not 0 < gap <= 1:
        raise ConfigError(
            "the spectral gap must lie in (0, 1]; it is 0 for a graph that is not connected: connect all agents"
        )
    return gap


def correct_gradient(
    tracked: NDArray[np.float64], gradient: NDArray[np.float64], previous: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return v^k = v^(k-1) + g(x^k) - g(x^(k-1)) in a new array.

    With v^0 = g(x^0), the corrections telescope: before v is mixed, v^k = g(x^k). Mixing with a doubly stochastic
    matrix keeps the mean of v over agents equal to the mean of their latest gradients. In a noise-free run that
    computes both gradients on the same batch, one record moves v twice as far as it moves one gradient.

    Args:
        tracked: v^(k-1), float64[P].
        gradient: g(x^k), including its noise.
        previous: g(x^(k-1)) exactly as included in `tracked`, with its noise; any other value breaks the telescoping.
    """
    return tracked + (gradient - previous)
