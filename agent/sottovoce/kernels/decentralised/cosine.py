"""Mixing weights from the directions of noised gradients: PDSL's Shapley weights without a validation set.

The gradients are noised releases already, so weights made of them cost no privacy, and no one is asked for labelled
public data.
"""

import numpy as np
from numpy.typing import NDArray


def to_mean(gradients: NDArray[np.float64]) -> NDArray[np.float64]:
    """π_j = max(cos(g_j, ḡ), 0)/Σ, with ḡ the mean gradient: the one to choose.

    All gradients are in the mean alike, so as noise drowns their directions the weights tend to equal ones, which
    average noise best.

    Args:
        gradients: float64[n,P], the noised gradients of a neighbourhood, one's own among them.

    Returns:
        float64[n], not negative, of sum 1; all equal where no cosine is positive. A gradient of zeros weighs nothing.
    """
    return _weights(gradients, gradients.mean(axis=0))


def to_own(gradients: NDArray[np.float64], own: int) -> NDArray[np.float64]:
    """π_j = max(cos(g_j, g_own), 0)/Σ: stays close to one's own data.

    One's own cosine is 1, noise and all: the more noise, the more weight on one's own gradient alone.

    Args:
        gradients: as for `to_mean`.
        own: the row of one's own.
    """
    return _weights(gradients, gradients[own])


def _weights(gradients: NDArray[np.float64], reference: NDArray[np.float64]) -> NDArray[np.float64]:
    along = np.maximum(gradients @ reference, 0.0)
    lengths = np.linalg.norm(gradients, axis=1)
    cosines = np.divide(along, lengths, out=np.zeros_like(along), where=lengths > 0)
    total = cosines.sum()
    if total == 0:
        return np.full(len(gradients), 1 / len(gradients))
    weights: NDArray[np.float64] = cosines / total
    return weights
