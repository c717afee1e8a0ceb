"""Linear regression: trained by gradients, or solved from the debiased moments of perturbed records."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.kernel import Features, Labels, Parameters
from sottovoce.kernels.per_example import PerExample, inner

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LeastSquares(PerExample):
    """Squared loss ℓ = (w'x - y)²/2 for an example (x, y), whose last column is the target y and whose label is unused.

    There is no penalty, because a few gradient descent steps from 0 shrink w just as the ridge penalty does (Ali,
    Kolter & Tibshirani 2019). There is no bias either, but a constant column can serve as one. The learners' default
    step sizes suit features with ‖x‖ of about ½.

    Attributes:
        features: the number of columns in an example, including its target; at least 2.
    """

    features: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of the weight vector, with P = features - 1."""
        return {"weight": (self.features - 1,)}

    @np.errstate(over="ignore", invalid="ignore")  # a warning would reveal information about a record
    def gradients(self, parameters: Parameters, features: Features, labels: Labels) -> Floats:
        """Return the per-example gradients (w'x - y) x, float64[N, B, P]. See Kernel.gradients."""
        x = np.ascontiguousarray(features[:, :, :-1])
        residuals = inner(x, parameters[:, np.newaxis]) - features[:, :, -1]
        outer: Floats = residuals[:, :, np.newaxis] * x
        return outer

    def predict(self, parameters: Parameters, features: Features) -> Labels:
        """Return zeros, int64[N, M], because there are no classes to distinguish."""
        return np.zeros((len(parameters), len(features)), dtype=np.int64)

    def values(self, parameters: Parameters, features: Features) -> Floats:
        """Return the predicted targets w'x, float64[N, M], for features float64[M, d]."""
        predicted: Floats = parameters @ features[:, :-1].T
        return predicted

    @np.errstate(over="ignore")
    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> Floats:
        """Return half the mean squared error, float64[N]."""
        losses: Floats = np.mean((self.values(parameters, features) - features[:, -1]) ** 2, axis=1) / 2
        return losses


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums of unbiased estimates over releases; two instances can be added.

    Attributes:
        first: float64[copies, d], estimate of Σ y⁽ᵏ⁾x.
        second: float64[d, d], estimate of Σ xxᵀ; symmetric, but not positive definite if the noise is large.
        count: number of releases.
    """

    first: Floats
    second: Floats
    count: int

    def __add__(self, other: Self) -> "Moments":
        return Moments(self.first + other.first, self.second + other.second, self.count + other.count)


_SHIFT_FACTOR = 0.7  # tuned on subsets of MNIST's training images: with 50,000 records, 1.0 and 0.5 are worse
_MAX_TRACE_SHARE = 0.05


def ridge(moments: Moments) -> NDArray[np.float64]:
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
