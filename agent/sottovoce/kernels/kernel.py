"""What a model must be able to do."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Parameters = NDArray[np.float64]
Features = NDArray[np.float64]
Labels = NDArray[np.int64]


class Model(Protocol):
    """A model with one flat parameter vector. N is the number of nodes, M of examples, P of parameters."""

    @property
    def size(self) -> int:
        """P."""
        ...

    def predict(self, parameters: Parameters, features: Features) -> Labels:
        """Labels int64[N, M] of features float64[M, d]."""
        ...

    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Mean loss float64[N] over features float64[M, d] and labels int64[M]."""
        ...


class Kernel(Model, Protocol):
    """A model that is trained by its gradient. N is the number of nodes, B of examples, P of parameters."""

    def initial(self, seed: int) -> Parameters:
        """The start that a fleet's devices share, float64[P]: the same bits for the same public seed, 0 or more."""
        ...

    def gradients(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Per-example gradients of the loss, float64[N, B, P].

        Each example's gradient depends, to the last bit, on that example and the parameters alone.

        Args:
            parameters: float64[N, P].
            features: float64[N, B, d].
            labels: int64[N, B].
        """
        ...
