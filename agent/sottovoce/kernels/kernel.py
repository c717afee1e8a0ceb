"""The interfaces that models implement, and initial parameter values."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Parameters = NDArray[np.float64]
Features = NDArray[np.float64]
Labels = NDArray[np.int64]


SAFETY = 1 - 2.0**-16
"""Factor by which clipping thresholds are reduced, a margin far larger than the rounding error of a float64 norm."""

MAX_SUMMED = 2**19
"""Maximum number of examples in one sum for which `Kernel.sum_error` is valid."""


class Model(Protocol):
    """A model with one flat parameter vector.

    N is the number of nodes, M the number of examples and P the number of parameters.
    """

    @property
    def size(self) -> int:
        """The number of parameters P."""
        ...

    def predict(self, parameters: Parameters, features: Features) -> Labels:
        """Return predicted labels, int64[N, M], for features float64[M, d]."""
        ...

    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Return the mean loss, float64[N], over features float64[M, d] and labels int64[M]."""
        ...


class Kernel(Model, Protocol):
    """A model trained by gradients.

    N is the number of nodes, B the number of examples and P the number of parameters.
    """

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors in the flat parameter vector, keyed by name in vector order, each in C order."""
        ...

    @property
    def sum_error(self) -> float | None:
        """The maximum error of `clipped_gradient_sum`, as a multiple of the clip.

        None if this error does not matter, because the vault clips each row of `gradients` exactly on its grid.
        """
        ...

    @property
    def precision(self) -> type[np.floating[Any]]:
        """The dtype in which the kernel reads features. A wider dtype would waste memory on a device."""
        ...

    def initial(self, seed: int) -> Parameters:
        """Return the initial parameters that the whole fleet shares, float64[P].

        The same public seed, which is at least 0, always returns identical bits.
        """
        ...

    def gradients(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Return the per-example gradients of the loss, float64[N, B, P].

        Each example's gradient depends, to the last bit, only on that example and the parameters.

        Args:
            parameters: float64[N, P].
            features: float64[N, B, d].
            labels: int64[N, B].
        """
        ...

    def clipped_gradient_sum(
        self, parameters: Parameters, features: Features, labels: Labels, clip: float
    ) -> NDArray[np.float64]:
        """Return Σ over examples of g · min(1, t/‖g‖), where t = SAFETY · clip keeps rounded terms within the clip.

        An example whose gradient is not finite contributes 0.

        Args:
            parameters: float64[P].
            features: float64[B, d].
            labels: int64[B].
            clip: the L2 threshold C, positive; infinity disables clipping.

        Returns:
            float64[P].
        """
        ...


def uniform_values(seed: int, size: int) -> NDArray[np.float64]:
    """Return uniform values in [-1, 1), float64[size].

    They are computed from the generator's raw words, so every NumPy version returns the same values.
    """
    words = np.random.PCG64(seed).random_raw(size)
    return np.asarray(words >> np.uint64(11), dtype=np.float64) * 2.0**-52 - 1
