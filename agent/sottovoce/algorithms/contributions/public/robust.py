"""Means of vectors that a few of the vectors cannot distort, and that cost little if no device tries to distort them.

The bounded mean: no vector counts for more than a multiple of the lower median length, so one of n vectors moves the
mean by at most 2/n of that multiple.

The robust mean also leaves vectors out. Allouah, Farhadkhani, Guerraoui, Gupta, Pinot & Stephan 2023 ("Fixing by
mixing"): each vector is replaced by the mean of those nearest to it (nearest-neighbour mixing), and the coordinate-wise
trimmed mean of these is taken. If at most f of n > 2f vectors are dishonest, the result differs from the honest mean by
no more than O(f/n) times the honest spread. But it also discards honest noise that others would have cancelled. So it
only serves as the centre from which distances are measured: a vector no farther away than half of the others, plus a
margin, counts in full, and one far away counts for nothing.
"""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float64]

LONGEST = 1.25
"""Largest length that a vector counts for, in lower median lengths; 1.0 costs a point of accuracy if devices differ."""

_NEAR, _FAR = 1.1, 1.4
"""In lower median distances: up to the first a vector counts in full, from the second on not at all."""


def robust_mean(vectors: Vectors, weights: NDArray[np.float64], apart: int) -> NDArray[np.float64]:
    """Return the weighted mean of vectors, up to `apart` of them arbitrary, float64[P]; with 0 the bounded mean.

    Args:
        vectors: float64[n, P], n ≥ 1, finite.
        weights: float64[n], above 0 and at most 1.
        apart: f, at most n/4.
    """
    shortened = _shortened(vectors)
    weights = weights * vector_weights(shortened, apart)
    mean: NDArray[np.float64] = weights @ shortened / weights.sum()
    return mean


def vector_weights(vectors: Vectors, apart: int) -> NDArray[np.float64]:
    """Return the weight of each vector, float64[n], between 0 and 1.

    Args:
        vectors: float64[n, P].
        apart: f.
    """
    if apart == 0:
        return np.ones(len(vectors))
    ordered = np.sort(_nearest_neighbour_means(vectors, apart), axis=0)
    distances = np.linalg.norm(vectors - ordered[apart : len(ordered) - apart].mean(axis=0), axis=1)
    usual = lower_median(distances)
    if usual == 0:
        return np.where(distances == 0, 1.0, 0.0)
    left: NDArray[np.float64] = np.clip((_FAR * usual - distances) / ((_FAR - _NEAR) * usual), 0.0, 1.0)
    return left


def lower_median(numbers: NDArray[np.float64]) -> float:
    """Return the median of one or more values; of two middle values, the lower."""
    return float(np.sort(numbers)[(len(numbers) - 1) // 2])


def _shortened(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1)
    limit = LONGEST * lower_median(lengths)
    factors = np.divide(limit, lengths, out=np.ones_like(lengths), where=lengths > limit)
    shortened: Vectors = vectors * factors[:, np.newaxis]
    return shortened


def _nearest_neighbour_means(vectors: Vectors, apart: int) -> Vectors:
    """Return each vector replaced by the mean of its n - f nearest ones, itself included."""
    products = vectors @ vectors.T
    squares = np.diag(products)
    distances = squares[:, np.newaxis] + squares - 2 * products
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : len(vectors) - apart]
    shares = np.zeros_like(products)
    np.put_along_axis(shares, nearest, 1.0 / nearest.shape[1], axis=1)
    mixed: Vectors = shares @ vectors
    return mixed
