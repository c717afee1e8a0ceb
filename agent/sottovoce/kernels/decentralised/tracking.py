"""DP-NET-FLEET's recursive correction: each agent's estimate of the gradient of the whole network."""

import numpy as np
from numpy.typing import NDArray


def corrected(
    tracked: NDArray[np.float64], gradient: NDArray[np.float64], previous: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return v^k = v^(k-1) + g(x^k) - g(x^(k-1)), in a new array.

    From v^0 = g(x^0) the corrections telescope: before v is mixed, v^k = g(x^k), and mixing by a doubly stochastic
    matrix leaves the mean of v over agents at the mean of their last gradients. Without noise, and where both gradients
    are of the same batch, one record moves v twice as far as it moves one gradient.

    Args:
        tracked: v^(k-1), float64[P].
        gradient: g(x^k), with its noise.
        previous: g(x^(k-1)), exactly as included in `tracked`, noise and all; otherwise the sum does not telescope.
    """
    return tracked + (gradient - previous)
