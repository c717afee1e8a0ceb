"""A mean of vectors that a minority of them cannot bend: nearest neighbours, then trimmed.

Allouah, Farhadkhani, Guerraoui, Gupta, Pinot & Stephan 2023 ("Fixing by mixing"): each vector gives way to the mean of
those nearest to it (nearest-neighbour mixing), and of these the coordinate-wise trimmed mean is taken. Where at most f
of n > 2f vectors are not honest, what comes out is off the honest mean by no more than O(f/n) times the honest spread.
"""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float64]

_LONGEST = 2.0
"""Times the lower median length: nothing counts for more, so that also among two or three none is without bound."""


def tolerated(count: int) -> int:
    """f: how many of so many vectors may be anything at all."""
    return count // 4


def robust_mean(vectors: Vectors) -> NDArray[np.float64]:
    """The mean of vectors of which up to `tolerated` are arbitrary, float64[P].

    Args:
        vectors: float64[n, P], n ≥ 1, finite.
    """
    apart = tolerated(len(vectors))
    shortened = _shortened(vectors)
    if apart == 0:
        mean: NDArray[np.float64] = shortened.mean(axis=0)
        return mean
    ordered = np.sort(_mixed(shortened, apart), axis=0)
    trimmed: NDArray[np.float64] = ordered[apart : len(ordered) - apart].mean(axis=0)
    return trimmed


def _shortened(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1)
    limit = _LONGEST * np.sort(lengths)[(len(lengths) - 1) // 2]
    return vectors * np.divide(limit, lengths, out=np.ones_like(lengths), where=lengths > limit)[:, np.newaxis]


def _mixed(vectors: Vectors, apart: int) -> Vectors:
    """Each as the mean of the n - f that are nearest to it, itself among them."""
    products = vectors @ vectors.T
    squares = np.diag(products)
    distances = squares[:, np.newaxis] + squares - 2 * products
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : len(vectors) - apart]
    counted = np.zeros_like(products)
    np.put_along_axis(counted, nearest, 1.0 / nearest.shape[1], axis=1)
    mixed: Vectors = counted @ vectors
    return mixed
