"""Plain and accelerated gossip.

The recurrence of accelerated gossip (Muffliato: Cyffers, Even, Bellet & Massoulié 2022, Algorithm 1) is x^(s+1) = (1 +
c_s) W x^s - c_s x^(s-1), with x^(-1) = x^0 and c_0 = 0. After S steps it has applied a polynomial of degree S in W. W
is symmetric and doubly stochastic, so every choice of c preserves the sum over agents. The gap of W is 1 - max(|λ₂|,
|λ_n|), in (0, 1]. Coefficients are float64[S] and public: anyone who knows the graph can compute them.
"""

import numpy as np
from numpy.typing import NDArray
from sottovoce.plugin import ConfigError


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
