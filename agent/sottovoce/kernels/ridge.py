"""Ridge regression on perturbed records, which solves least squares from their debiased moments."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # not needed on a device that fits no ridge regression
    from sottovoce.perturbation import Moments

_SHIFT_FACTOR = 0.7  # tuned on subsets of MNIST's training images: |e| and |e|/2 are worse with 50,000 records
_MAX_TRACE_SHARE = 0.05


def ridge(moments: "Moments") -> NDArray[np.float64]:
    """Fit w^(k) = (S₂ + λI)⁻¹ S₁^(k), where S₁ and S₂ are the means of y^(k)x and xxᵀ over n records.

    Unlike the loss of a model that walks over noisy records, both moments are unbiased, so their noise averages out.
    Noise may make S₂ indefinite, so negative eigenvalues are set to 0. The penalty λ depends only on public quantities:

    - 0.7 |e|, where |e| is the magnitude of the lowest eigenvalue if it is negative. A noise-free matrix has no
      negative eigenvalues, so |e| shows how far noise has shifted the spectrum. This term is at most 5 % of the trace,
      because with a larger λ a model would learn only which class is more frequent.
    - trace/n, the usual penalty for noise-free data.

    Args:
        moments: the sums over n ≥ 1 records.

    Returns:
        w, float64[copies,d]; all 0 if the records do not determine any weights.
    """
    first, second = moments.first / moments.count, moments.second / moments.count
    values, vectors = np.linalg.eigh(second)
    trace = max(float(values.sum()), 0.0)
    shift = max(0.0, -float(values[0]))
    penalty = min(_SHIFT_FACTOR * shift, _MAX_TRACE_SHARE * trace) + trace / moments.count
    if penalty == 0:
        return np.zeros_like(first)
    weights: NDArray[np.float64] = (first @ vectors / (np.maximum(values, 0.0) + penalty)) @ vectors.T
    return weights
