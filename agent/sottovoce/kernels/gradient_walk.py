"""The gradient perturbation step, a baseline in Hegedűs & Jelasity 2017 which adds noise to a gradient per visit."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.gossip_rules import LAMBDA, Slope
from sottovoce.kernels.products import inner

Float = TypeVar("Float", bound=np.floating[Any])


def descents(weights: NDArray[Float], batch: NDArray[Float], slope: Slope) -> NDArray[Float]:
    """Return each record's negative loss (sub)gradient, slope(w'q) · q, without the regulariser.

    Slopes lie between 0 and 1, so a descent vector is never longer than its record in any norm.

    Args:
        weights: float[N,k,d].
        batch: float[N,b,k,d], each node's records as y^(k)x.
        slope: the negative derivative of the loss with respect to the margin; see gossip_rules.

    Returns:
        float[N,b,k,d].
    """
    margins = inner(weights[:, np.newaxis], batch)
    vectors: NDArray[Float] = slope(margins)[..., np.newaxis] * batch
    return vectors


def descend(
    weights: NDArray[Float], steps: NDArray[np.int64], noisy_gradients: NDArray[Float]
) -> tuple[NDArray[Float], NDArray[np.int64]]:
    """Take the step t ← t+1; w ← w - (λw + g)/(λt).

    Args:
        weights: float[N,k,d].
        steps: int64[N], t before the step, starting at 0.
        noisy_gradients: float[N,k,d], the noisy gradients g.

    Returns:
        The new weights and steps, in new arrays.
    """
    steps = steps + 1
    shrunk = weights * (1 - 1 / steps).astype(weights.dtype)[:, np.newaxis, np.newaxis]
    rates = (1 / (LAMBDA * steps)).astype(weights.dtype)[:, np.newaxis, np.newaxis]
    return shrunk - noisy_gradients * rates, steps
