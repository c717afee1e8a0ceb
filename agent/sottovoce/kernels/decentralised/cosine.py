"""Mixing weights from the directions of noisy gradients, which replace PDSL's Shapley weights without a validation set.

The gradients are noisy releases already, so weights computed from them cost no privacy and need no labelled public
data.
"""

import numpy as np
from numpy.typing import NDArray


def weights_by_mean(gradients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return π_j = max(cos(g_j, ḡ), 0)/Σ, where ḡ is the mean gradient.

    All gradients contribute equally to the mean, so the weights approach equal weights, which average noise best, as
    noise drowns out the gradients' directions.

    Args:
        gradients: float64[n,P], the noisy gradients in a neighbourhood, including the agent's own.

    Returns:
        float64[n], non-negative and summing to 1; all equal if no cosine is positive. A zero gradient has weight 0.
    """
    projections = np.maximum(gradients @ gradients.mean(axis=0), 0.0)
    lengths = np.linalg.norm(gradients, axis=1)
    cosines = np.divide(projections, lengths, out=np.zeros_like(projections), where=lengths > 0)
    total = cosines.sum()
    if total == 0:
        return np.full(len(gradients), 1 / len(gradients))
    weights: NDArray[np.float64] = cosines / total
    return weights
