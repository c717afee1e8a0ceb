"""Interfaces of models."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Parameters = NDArray[np.float64]
Features = NDArray[np.float64]
Labels = NDArray[np.int64]


SAFETY = 1 - 2.0**-16
"""Factor that shortens clipping thresholds, by far more than the rounding error of a norm in float64."""

MAX_SUMMED = 2**19
"""Largest number of examples in one sum for which `Kernel.sum_error` holds."""


class Model(Protocol):
    """A model with one flat parameter vector. N is the number of nodes, M of examples, P of parameters."""

    @property
    def size(self) -> int:
        """P."""
        ...

    def predict(self, parameters: Parameters, features: Features) -> Labels:
        """Return labels int64[N, M] of features float64[M, d]."""
        ...

    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Return the mean loss float64[N] over features float64[M, d] and labels int64[M]."""
        ...


class Kernel(Model, Protocol):
    """A model trained by its gradient. N is the number of nodes, B of examples, P of parameters."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the tensors in the flat parameter vector, by name, in its order, each in C order."""
        ...

    @property
    def sum_error(self) -> float | None:
        """Largest error of `clipped_gradient_sum`, as a multiple of the clip.

        None where this error does not matter, since the vault clips `gradients` one by one on its grid, exactly.
        """
        ...

    @property
    def precision(self) -> type[np.floating[Any]]:
        """Dtype in which the kernel reads features; a wider one would waste a device's memory."""
        ...

    def initial(self, seed: int) -> Parameters:
        """Return the fleet's common initial parameters, float64[P]: identical bits for one public seed, 0 or more."""
        ...

    def gradients(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Return the per-example gradients of the loss, float64[N, B, P].

        Each example's gradient depends, to the last bit, on that example and the parameters alone.

        Args:
            parameters: float64[N, P].
            features: float64[N, B, d].
            labels: int64[N, B].
        """
        ...

    def clipped_gradient_sum(
        self, parameters: Parameters, features: Features, labels: Labels, clip: float
    ) -> NDArray[np.float64]:
        """Return Σ over examples of g · min(1, t/‖g‖), t = SAFETY · clip: rounded terms never exceed the clip.

        An example whose gradient is not finite adds 0.

        Args:
            parameters: float64[P].
            features: float64[B, d].
            labels: int64[B].
            clip: L2 threshold C, positive; infinity for none.

        Returns:
            float64[P].
        """
        ...
