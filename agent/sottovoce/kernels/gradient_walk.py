"""The gradient perturbation step, the baseline of Hegedűs & Jelasity 2017: noise on a gradient, at every visit."""

from typing import TypeVar, Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.gossip_rules import LAMBDA, Slope

Float = TypeVar("Float", bound=np.floating[Any])


def loss_gradients(weights: NDArray[Float], batch: NDArray[Float], slope: Slope) -> NDArray[Float]:
    """Mean loss (sub)gradient over each node's own records, without the regulariser.

    One record of a batch of b changes it by 2·max‖x‖/b at most, in whatever norm: a slope lies between 0 and 1.

    Args:
        weights: float[N,k,d].
        batch: float[N,b,k,d], each record as y^(k)x.
        slope: minus the derivative of the loss by the margin, see gossip_rules.

    Returns:
        float[N,k,d].
    """
    margins = np.add.reduce(np.ascontiguousarray(weights[:, np.newaxis] * batch), axis=3)
    gradients: NDArray[Float] = -np.mean(slope(margins)[..., np.newaxis] * batch, axis=1)
    return gradients


def descend(
    weights: NDArray[Float], steps: NDArray[np.int64], noisy_gradients: NDArray[Float]
) -> tuple[NDArray[Float], NDArray[np.int64]]:
    """t ← t+1; w ← w - (λw + g)/(λt).

    Args:
        weights: float[N,k,d].
        steps: int64[N], t before the step, from 0.
        noisy_gradients: float[N,k,d], g, with its noise.

    Returns:
        the new weights and steps, in new arrays.
    """
    steps = steps + 1
    kept = weights * (1 - 1 / steps).astype(weights.dtype)[:, np.newaxis, np.newaxis]
    rates = (1 / (LAMBDA * steps)).astype(weights.dtype)[:, np.newaxis, np.newaxis]
    return kept - noisy_gradients * rates, steps
