"""Means that a few vectors cannot distort, at little cost in accuracy if all devices are honest.

In the bounded mean, no vector counts for more than a fixed multiple of the lower median length. The length of an honest
vector is nearly all noise, which has full rank and averages away. A vector of the same length that points where the
loss rises does not, and it has a low rank: as a matrix of features and classes, its largest singular value is two and a
half times that of noise (Marchenko & Pastur 1967). No matrix in a vector therefore counts for more than the same
multiple of the lower median of the largest singular values either.

The robust mean also leaves vectors out, following Allouah, Farhadkhani, Guerraoui, Gupta, Pinot & Stephan 2023 ("Fixing
by mixing"). Each vector is replaced by the mean of its nearest neighbours (nearest-neighbour mixing), and the results
are combined by a coordinate-wise trimmed mean. If at most f of n > 2f vectors are dishonest, the result differs from
the honest mean by no more than O(f/n) times the honest spread. However, trimming also discards honest noise that
other vectors' noise would have cancelled out. The trimmed mean is therefore used only as the centre from which
distances are measured: a vector counts in full if its distance exceeds the lower median distance by no more than a
margin, and a vector far away is ignored.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float64]
Shapes = Sequence[tuple[int, ...]]
"""The shapes of the tensors in a vector, in order."""

LONGEST = 1.25
"""Length limit for vectors, in lower median lengths (decision 44). With 1.0, ten honest devices that differ reach 0.846
instead of 0.859 on digits at ε = 2; 1.5 and more gain nothing, and give the attack `tenfold` more room."""

_MAX_SMALLER_SIDE = 128
"""Matrices whose smaller side is longer are bounded in length only: their singular values take a small device longer to
compute than the gradient."""

_NEAR, _FAR = 1.1, 1.4
"""Multiples of the lower median distance: up to the first, vectors count in full; from the second, they are ignored.
What is proved about the robust mean depends on the second (docs/explanation/contributions.md)."""


def robust_mean(
    vectors: Vectors, weights: NDArray[np.float64], excluded: int, shapes: Shapes = ()
) -> NDArray[np.float64]:
    """Return the weighted mean of vectors, float64[P], robust to `excluded` arbitrary vectors; with 0, only bounded.

    Args:
        vectors: float64[n, P], n ≥ 1, finite.
        weights: float64[n], each above 0 and at most 1.
        excluded: f, at most n/4.
        shapes: the shapes of the tensors in a vector; the singular values of its matrices are bounded as well.
    """
    shortened = _flatten_matrices(_shorten_vectors(vectors), shapes)
    weights = weights * vector_weights(shortened, excluded)
    mean: NDArray[np.float64] = weights @ shortened / weights.sum()
    return mean


def vector_weights(vectors: Vectors, excluded: int) -> NDArray[np.float64]:
    """Return a weight between 0 and 1 for each vector, float64[n].

    Args:
        vectors: float64[n, P].
        excluded: f.
    """
    if excluded == 0:
        return np.ones(len(vectors))
    ordered = np.sort(_nearest_neighbour_means(vectors, excluded), axis=0)
    distances = np.linalg.norm(vectors - ordered[excluded : len(ordered) - excluded].mean(axis=0), axis=1)
    median = lower_median(distances)
    if median == 0:
        return np.where(distances == 0, 1.0, 0.0)
    weights: NDArray[np.float64] = np.clip((_FAR * median - distances) / ((_FAR - _NEAR) * median), 0.0, 1.0)
    return weights


def lower_median(numbers: NDArray[np.float64]) -> float:
    """Return the median of one or more values, or the lower of two middle values."""
    return float(np.sort(numbers)[(len(numbers) - 1) // 2])


def _shorten_vectors(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1)
    limit = LONGEST * lower_median(lengths)
    factors = np.divide(limit, lengths, out=np.ones_like(lengths), where=lengths > limit)
    shortened: Vectors = vectors * factors[:, np.newaxis]
    return shortened


def matrices(vectors: Vectors, shapes: Shapes) -> Iterator[Vectors]:
    """Yield views of each matrix within contiguous vectors, float64[n, longer side, smaller side]."""
    start = 0
    for shape in shapes:
        end = start + math.prod(shape)
        if len(shape) > 1:
            stacked = vectors[:, start:end].reshape(len(vectors), shape[0], -1)
            tall = stacked if stacked.shape[1] >= stacked.shape[2] else stacked.transpose(0, 2, 1)
            if 1 < tall.shape[2] <= _MAX_SMALLER_SIDE:
                yield tall
        start = end


def largest_singular_values(tall: Vectors) -> NDArray[np.float64]:
    """Return the largest singular value of each matrix, float64[n]."""
    squares = np.linalg.eigvalsh(tall.transpose(0, 2, 1) @ tall)[:, -1]
    largest: NDArray[np.float64] = np.sqrt(np.maximum(squares, 0.0))
    return largest


def _flatten_matrices(vectors: Vectors, shapes: Shapes) -> Vectors:
    """Return the vectors, with singular values reduced to `LONGEST` lower medians of the largest ones."""
    if len(vectors) == 1:
        return vectors
    flattened = vectors.copy()
    for tall in matrices(flattened, shapes):
        largest = largest_singular_values(tall)
        limit = LONGEST * lower_median(largest)
        for index in np.flatnonzero(largest > limit):
            squares, axes = np.linalg.eigh(tall[index].T @ tall[index])
            factors = limit / np.sqrt(np.maximum(squares, limit**2))
            tall[index] = tall[index] @ (axes * factors) @ axes.T
    return flattened


def _nearest_neighbour_means(vectors: Vectors, excluded: int) -> Vectors:
    """Return the vectors, each replaced by the mean of its n - f nearest vectors including itself."""
    products = vectors @ vectors.T
    squares = np.diag(products)
    distances = squares[:, np.newaxis] + squares - 2 * products
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : len(vectors) - excluded]
    shares = np.zeros_like(products)
    np.put_along_axis(shares, nearest, 1.0 / nearest.shape[1], axis=1)
    mixed: Vectors = shares @ vectors
    return mixed
