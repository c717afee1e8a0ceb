"""Linear regression trained by gradients, where the target is a number stored in the example itself."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.kernel import Features, Labels, Parameters
from sottovoce.kernels.per_example import PerExample
from sottovoce.kernels.products import inner

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LeastSquares(PerExample):
    """Squared loss ℓ = (w'x - y)²/2 for an example (x, y), whose last column is the target y and whose label is unused.

    There is no penalty, because a few gradient descent steps from 0 shrink w just as the ridge penalty does (Ali,
    Kolter & Tibshirani 2019). There is no bias either, but a constant column can serve as one. The learners' default
    steps suit an ‖x‖ of about ½.

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
