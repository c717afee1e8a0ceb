"""Per-example gradients and their sums, with inner products that do not depend on the rest of a batch."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.kernel import SAFETY, Features, Labels, Parameters

if TYPE_CHECKING:
    from sottovoce.kernels.kernel import Kernel

_BATCH_NUMBERS = 2**17  # values in one batch of rows: 1 MiB, which fits into the cache


class PerExample(ABC):
    """Base class for models that implement `gradients`; see Kernel."""

    __slots__ = ()

    @property
    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the tensor shapes; see Kernel.shapes."""

    @property
    def size(self) -> int:
        """The number of parameters P."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    @property
    def sum_error(self) -> None:
        """None, because this error does not matter here; see Kernel.sum_error."""
        return None

    @property
    def precision(self) -> type[np.float64]:
        """The dtype in which features are read: float64; see Kernel.precision."""
        return np.float64

    def initial(self, seed: int) -> NDArray[np.float64]:
        """Return zeros, float64[P]; see Kernel.initial."""
        return np.zeros(self.size)

    @abstractmethod
    def gradients(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Return the per-example gradients; see Kernel.gradients."""

    def clipped_gradient_sum(
        self, parameters: Parameters, features: Features, labels: Labels, clip: float
    ) -> NDArray[np.float64]:
        """Return the sum of clipped gradients; see Kernel.clipped_gradient_sum."""
        threshold, total = SAFETY * clip, np.zeros(len(parameters))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a warning would leak record data
            for rows in per_example_gradients(self, parameters, features, labels):
                norms = np.sqrt(np.add.reduce(rows * rows, axis=1))
                rows[~np.isfinite(norms)] = 0.0
                rows *= np.where(norms <= threshold, 1.0, threshold / norms)[:, np.newaxis]
                total += np.add.reduce(np.nan_to_num(rows), axis=0)
        return total


def per_example_gradients(
    kernel: "Kernel | PerExample", point: Parameters, features: Features, labels: Labels
) -> Iterator[NDArray[np.float64]]:
    """Yield the gradients at a point, float64[P], one row per example, in batches of about a megabyte."""
    batch = max(1, _BATCH_NUMBERS // len(point))
    for start in range(0, len(labels), batch):
        part = slice(start, start + batch)
        yield kernel.gradients(point[np.newaxis], features[np.newaxis, part], labels[np.newaxis, part])[0]


Float = TypeVar("Float", bound=np.floating[Any])

_MAX_SPAN_LENGTH = 4096  # einsum splits rows longer than its buffer of 8192 values at an unpredictable position


def inner(left: NDArray[Float], right: NDArray[Float]) -> NDArray[Float]:
    """Return Σ_i left[…, i] · right[…, i], with the leading axes broadcast against each other.

    BLAS is not used, because its summation order may depend on an array's address and thus on a record's neighbours.
    Here the order depends only on the length of the last axis.

    Args:
        left: float[…, d], where d is at least 1.
        right: float[…, d].

    Returns:
        float[…].
    """
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    total: NDArray[Float] = np.einsum("...i,...i->...", left[..., :_MAX_SPAN_LENGTH], right[..., :_MAX_SPAN_LENGTH])
    for start in range(_MAX_SPAN_LENGTH, left.shape[-1], _MAX_SPAN_LENGTH):
        span = slice(start, start + _MAX_SPAN_LENGTH)
        total += np.einsum("...i,...i->...", left[..., span], right[..., span])
    return total
