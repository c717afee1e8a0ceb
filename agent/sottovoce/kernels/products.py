"""Inner products that are bit-identical regardless of what else is computed in the same call."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Float = TypeVar("Float", bound=np.floating[Any])

_SPAN = 4096  # einsum splits rows longer than its buffer of 8192 values at an unpredictable position


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
    total: NDArray[Float] = np.einsum("...i,...i->...", left[..., :_SPAN], right[..., :_SPAN])
    for start in range(_SPAN, left.shape[-1], _SPAN):
        span = slice(start, start + _SPAN)
        total += np.einsum("...i,...i->...", left[..., span], right[..., span])
    return total
