"""The mean of vectors as a model that predicts nothing and whose loss is the distance to the vectors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.kernel import Features, Labels, Parameters


@dataclass(frozen=True, slots=True)
class Mean:
    """A model whose parameters are an estimate of the mean vector.

    Attributes:
        features: the vector length.
    """

    features: int

    @property
    def size(self) -> int:
        """The number of parameters, P = features."""
        return self.features

    def predict(self, parameters: Parameters, features: Features) -> Labels:
        """Return zeros, int64[N, M], because there are no classes to distinguish."""
        return np.zeros((len(parameters), len(features)), dtype=np.int64)

    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Return half the mean squared distance to the vectors, float64[N], which is smallest at their mean."""
        differences = parameters[:, np.newaxis] - features
        losses: NDArray[np.float64] = np.mean(np.add.reduce(differences * differences, axis=2), axis=1) / 2
        return losses
