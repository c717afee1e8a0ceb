"""The recursive correction of DP-NET-FLEET: each agent's estimate of the whole network's gradient."""

import numpy as np
from numpy.typing import NDArray


def corrected(
    tracked: NDArray[np.float64], gradient: NDArray[np.float64], previous: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return v^k = v^(k-1) + g(x^k) - g(x^(k-1)), in a new array.

    Starting from v^0 = g(x^0), the corrections telescope: before v is mixed, v^k = g(x^k). Mixing by a doubly
    stochastic matrix keeps the mean of v over agents equal to the mean of their latest gradients. Without noise, if
    both gradients are computed on the same batch, one record moves v twice as far as it moves one gradient.

    Args:
        tracked: v^(k-1), float64[P].
        gradient: g(x^k), including its noise.
        previous: g(x^(k-1)), exactly as included in `tracked`, with its noise; otherwise the sum does not telescope.
    """
    return tracked + (gradient - previous)
