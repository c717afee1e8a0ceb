"""A mean of vectors that a minority of them cannot bend, and that costs little where nobody tries to.

Allouah, Farhadkhani, Guerraoui, Gupta, Pinot & Stephan 2023 ("Fixing by mixing"): each vector gives way to the mean of
those nearest to it (nearest-neighbour mixing), and of these the coordinate-wise trimmed mean is taken. Where at most f
of n > 2f vectors are not honest, it is off the honest mean by no more than O(f/n) times the honest spread. But it also
throws away honest noise that others would have cancelled. So it is only the middle from which distances are taken: what
is no farther from it than half of the others are, and a little more, counts in full, what is far away counts nothing.
"""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float64]

_LONGEST = 2.0
"""Times the lower median length: nothing counts for more, so that also among two or three none is without bound."""

_NEAR, _FAR = 1.1, 1.4
"""Times the lower median distance: up to the one a vector counts in full, from the other on not at all."""


def robust_mean(vectors: Vectors, weights: NDArray[np.float64], apart: int) -> NDArray[np.float64]:
    """The weighted mean of vectors of which up to `apart` are arbitrary, float64[P].

    Args:
        vectors: float64[n, P], n ≥ 1, finite.
        weights: float64[n], above 0 and at most 1.
        apart: f, at most n/4.
    """
    shortened = _shortened(vectors)
    weights = weights * counted(shortened, apart)
    mean: NDArray[np.float64] = weights @ shortened / weights.sum()
    return mean


def counted(vectors: Vectors, apart: int) -> NDArray[np.float64]:
    """For how much each of them counts, float64[n], between 0 and 1.

    Args:
        vectors: float64[n, P].
        apart: f.
    """
    if apart == 0:
        return np.ones(len(vectors))
    ordered = np.sort(_mixed(vectors, apart), axis=0)
    distances = np.linalg.norm(vectors - ordered[apart : len(ordered) - apart].mean(axis=0), axis=1)
    usual = _lower_median(distances)
    if usual == 0:
        return np.where(distances == 0, 1.0, 0.0)
    left: NDArray[np.float64] = np.clip((_FAR * usual - distances) / ((_FAR - _NEAR) * usual), 0.0, 1.0)
    return left


def _lower_median(numbers: NDArray[np.float64]) -> float:
    return float(np.sort(numbers)[(len(numbers) - 1) // 2])


def _shortened(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1)
    limit = _LONGEST * _lower_median(lengths)
    factors = np.divide(limit, lengths, out=np.ones_like(lengths), where=lengths > limit)
    shortened: Vectors = vectors * factors[:, np.newaxis]
    return shortened


def _mixed(vectors: Vectors, apart: int) -> Vectors:
    """Each as the mean of the n - f that are nearest to it, itself among them."""
    products = vectors @ vectors.T
    squares = np.diag(products)
    distances = squares[:, np.newaxis] + squares - 2 * products
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : len(vectors) - apart]
    shares = np.zeros_like(products)
    np.put_along_axis(shares, nearest, 1.0 / nearest.shape[1], axis=1)
    mixed: Vectors = shares @ vectors
    return mixed
