"""The mean of vectors, as a model: nothing is predicted by it, and its loss is how far it is away."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.kernel import Features, Labels, Parameters


@dataclass(frozen=True, slots=True)
class Mean:
    """A vector.

    Attributes:
        features: its numbers.
    """

    features: int

    @property
    def size(self) -> int:
        """P = features."""
        return self.features

    def predict(self, parameters: Parameters, features: Features) -> Labels:
        """Zeros, int64[N, M]: there is nothing to be told apart."""
        return np.zeros((len(parameters), len(features)), dtype=np.int64)

    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Half the mean squared distance to the vectors, float64[N]: least at their mean."""
        away = parameters[:, np.newaxis] - features
        losses: NDArray[np.float64] = np.mean(np.add.reduce(away * away, axis=2), axis=1) / 2
        return losses
