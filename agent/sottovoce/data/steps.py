"""The steps of transforms, each of which maps every row of features independently to a new row.

Each row of the result is bit-identical regardless of which other rows are present, see sottovoce.data.transform. Each
step receives its own C-contiguous float64 copy, which it may modify.
"""

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.bounds import Bounds
from sottovoce.errors import DataError
from sottovoce.kernels.profile import harmonic_waves

Rows = NDArray[np.float64]

HOG_DIRECTIONS = tuple((math.cos(math.pi * k / 4), math.sin(math.pi * k / 4)) for k in range(4))
"""Cosine and sine of the directions in which `hog` looks for edges, over half a turn: an edge from dark to light counts
like one from light to dark."""

HOG_FLOOR = 0.1
"""Contrast per pixel in a cell below which `hog` attenuates edges."""

_CHUNK_ROWS = 1024  # number of rows whose complete images `hog` has in memory at the same time


def squash(rows: Rows, bounds: Bounds | None, scale: float) -> Rows:
    """Return rows scaled to [0, 1] by their bounds, or 0 for bounds of zero width; without bounds, apply log(scale)."""
    if bounds is None:
        return log(rows, scale)
    low, high = bounds
    rows -= low
    span = high - low
    return np.divide(rows, span, out=np.zeros_like(rows), where=span > 0)


def log(rows: Rows, scale: float) -> Rows:
    """Return sign(x) · ln(1 + |x|/scale), which is linear well below `scale` and logarithmic above."""
    magnitudes = np.abs(rows)
    if scale != 1:
        magnitudes = np.minimum(magnitudes, scale * 1e300) / scale  # larger values would overflow
    squashed: Rows = np.sign(rows) * np.log1p(magnitudes)
    return squashed


def pool(rows: Rows, side: int) -> Rows:
    """Return the means over the side × side squares of a square image, whose width must be a multiple of `side`.

    Raises:
        DataError: if the features are not such an image.
    """
    width = pooled_width(rows.shape[1], side)
    image = rows.reshape(len(rows), width, side, width, side)
    total = np.zeros((len(rows), width, width))
    for y in range(side):
        for x in range(side):
            total += image[:, :, y, :, x] / (side * side)
    return total.reshape(len(rows), width * width)


def pooled_width(features: int, side: int) -> int:
    """Return the number of pixels along one side of the pooled image.

    Raises:
        DataError: see `pool`.
    """
    return _cells_per_side("pool", features, side)


def dct(rows: Rows, side: int) -> Rows:
    """Return the side × side lowest frequencies of a square image: its truncated orthonormal two-dimensional DCT-II.

    The lowest frequencies contain most of an image's energy, as the first principal components do, but they are
    not fitted to records.

    Raises:
        DataError: if the features are not such an image, or the image has fewer frequencies.
    """
    dct_width(rows.shape[1], side)
    pixels = math.isqrt(rows.shape[1])
    waves = _waves(pixels, side)
    # No BLAS: each sum runs along one row of adjacent numbers, so its order does not depend on any other record.
    across = np.einsum("nyx,kx->nky", rows.reshape(len(rows), pixels, pixels), waves)
    frequencies: Rows = np.einsum("nky,ly->nlk", across, waves)
    return frequencies.reshape(len(rows), side * side)


def dct_width(features: int, side: int) -> int:
    """Return the number of columns that `dct` produces.

    Raises:
        DataError: see `dct`.
    """
    pixels = math.isqrt(features)
    if pixels * pixels != features or pixels < side:
        raise DataError(
            f"dct({side}): {features} features are not a square image with a side of at least {side}. Remove "
            "this step from data.transform, or use a different number."
        )
    return side * side


def hog(rows: Rows, side: int) -> Rows:
    """Return histograms of oriented gradients of a square image, in cells of side × side pixels (Dalal & Triggs 2005).

    At each pixel, the difference of its neighbours, g = (right - left, below - above), contributes a vote of |g| cos⁴
    of the angle between g and each of four directions. A cell sums the votes of the 2 side × 2 side pixels around its
    centre, with the weight (1 - |x|/side) (1 - |y|/side) for a pixel at distance (x, y), and divides its four sums by
    their L2 norm plus HOG_FLOOR · side². The columns are ordered by cell, row by row; each cell's directions are
    adjacent.

    Raises:
        DataError: if the features are not such an image.
    """
    columns = hog_width(rows.shape[1], side)
    pixels = math.isqrt(rows.shape[1])
    histograms = np.empty((len(rows), columns))
    for start in range(0, len(rows), _CHUNK_ROWS):
        images = rows[start : start + _CHUNK_ROWS].reshape(-1, pixels, pixels)
        histograms[start : start + _CHUNK_ROWS] = _oriented_gradients(images, side).reshape(-1, columns)
    return histograms


def hog_width(features: int, side: int) -> int:
    """Return the number of columns that `hog` produces.

    Raises:
        DataError: see `hog`.
    """
    return _cells_per_side("hog", features, side) ** 2 * len(HOG_DIRECTIONS)


def harmonics(rows: Rows, count: int) -> Rows:
    """Return each row's level and the cosine and sine of its first `count` frequencies, such as a day's smooth part.

    Raises:
        DataError: if the rows have too few columns.
    """
    harmonics_width(rows.shape[1], count)
    # No BLAS: each sum runs along one row of adjacent numbers, so its order does not depend on any other record.
    coefficients: Rows = np.einsum("nd,kd->nk", rows, harmonic_waves(rows.shape[1], count))
    return coefficients


def harmonics_width(features: int, count: int) -> int:
    """Return the number of columns that `harmonics` produces.

    Raises:
        DataError: see `harmonics`.
    """
    if 2 * count >= features:
        raise DataError(
            f"harmonics({count}): {features} features support at most {max(0, (features - 1) // 2)} harmonics. "
            "Use fewer, or remove this step from data.transform."
        )
    return 1 + 2 * count


def centre(rows: Rows) -> Rows:
    """Subtract from each record the mean over its own features."""
    rows -= rows[:, :1].copy()  # makes equal features exactly 0, without rounding errors
    rows -= rows.mean(axis=1, keepdims=True)
    return rows


def unit(rows: Rows) -> Rows:
    """Divide each record by its own L2 norm; a record of zeros is unchanged."""
    _divide_rows(rows, np.abs(rows).max(axis=1, keepdims=True))  # prevents underflow in the squares of tiny numbers
    _divide_rows(rows, np.sqrt((rows * rows).sum(axis=1, keepdims=True)))
    return rows


def rms(rows: Rows) -> Rows:
    """Divide each record by its own root mean square; a record of zeros is unchanged."""
    return unit(rows) * math.sqrt(rows.shape[1])


def bias(rows: Rows, value: float) -> Rows:
    """Append a constant feature to each record."""
    return np.hstack([rows, np.full((len(rows), 1), value)])


def _cells_per_side(step: str, features: int, side: int) -> int:
    """Return the number of cells of side × side pixels along one side of a square image.

    Raises:
        DataError: if the features are not such an image.
    """
    pixels = math.isqrt(features)
    if pixels * pixels != features or pixels % side:
        raise DataError(
            f"{step}({side}): {features} features are not a square image with a side divisible by {side}. Remove this "
            "step from data.transform, or use a different number."
        )
    return pixels // side


@lru_cache(maxsize=8)
def _waves(pixels: int, count: int) -> Rows:
    """Return the `count` lowest-frequency orthonormal waves of the DCT-II, float64[count, pixels].

    The array is cached, so it must not be changed.
    """
    waves: Rows = np.cos(np.pi / pixels * np.outer(np.arange(count), np.arange(pixels) + 0.5)) * np.sqrt(2 / pixels)
    waves[0] /= np.sqrt(2)
    return waves


def _divide_rows(rows: Rows, divisors: Rows) -> None:
    np.divide(rows, divisors, out=rows, where=divisors > 0)


def hog_weights(side: int) -> tuple[float, ...]:
    """Return the weights that `hog` uses for 2 · side pixels along one axis, starting `side // 2` before a cell."""
    return tuple(1 - abs(y - side // 2 - (side - 1) / 2) / side for y in range(2 * side))


def _oriented_gradients(images: Rows, side: int) -> Rows:
    """Return the normalised edges of images float64[n, pixels, pixels] as float64[n, cells, cells, directions].

    Uses only elementwise operations in a fixed order, so other images do not affect the result.
    """
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)), mode="edge")
    across, down = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2], padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    strength, cells = np.hypot(across, down), images.shape[1] // side
    sums = np.empty((len(images), cells, cells, len(HOG_DIRECTIONS)))
    for k, (cosine, sine) in enumerate(HOG_DIRECTIONS):
        along = across * cosine + down * sine
        along = np.divide(along, strength, out=np.zeros_like(along), where=strength > 0) ** 2
        sums[..., k] = _sum_around_cells(
            _sum_around_cells(along * along * strength, side).swapaxes(1, 2), side
        ).swapaxes(1, 2)
    squares = np.zeros(sums.shape[:-1])
    for k in range(len(HOG_DIRECTIONS)):
        squares += sums[..., k] * sums[..., k]
    sums /= (np.sqrt(squares) + HOG_FLOOR * side * side)[..., np.newaxis]
    return sums


def _sum_around_cells(votes: Rows, side: int) -> Rows:
    """Return the weighted sums around each cell along the second axis: float64[n, pixels, m] → float64[n, cells, m]."""
    ends = ((0, 0), (side // 2, side - side // 2), (0, 0))
    return weighted_sums(np.pad(votes, ends), hog_weights(side), side)


def weighted_sums(images: Rows, weights: Iterable[float], stride: int = 1) -> Rows:
    """Return weighted sums down the images at all positions where the weights fit: float64[..., p, q] → [..., p', q].

    The sums are accumulated elementwise in the order of the weights, so other images do not affect the result.
    """
    column = list(weights)
    count = (images.shape[-2] - len(column)) // stride + 1
    total = np.zeros((*images.shape[:-2], count, images.shape[-1]))
    for offset, weight in enumerate(column):
        total += images[..., offset : offset + stride * (count - 1) + 1 : stride, :] * weight
    return total
