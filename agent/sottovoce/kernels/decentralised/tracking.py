"""The recursive correction in DP-NET-FLEET, which lets each agent estimate the whole network's gradient."""

import numpy as np
from numpy.typing import NDArray


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
