"""Wavelet scattering of images: fixed wavelets, absolute values and averages in two orders (Bruna & Mallat 2013)."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.steps import weighted_sums
from sottovoce.errors import DataError

Rows = NDArray[np.float64]

ANGLES = 4
"""Number of wavelet directions over half a turn."""

FLOOR = 0.02
"""Constant, in the pixels' unit, that is added to a map's standard deviation to keep nearly flat maps small."""

_WIDTH = 0.8  # standard deviation of the finest wavelet's envelope, in pixels
_FREQUENCY = 0.75 * math.pi  # frequency of the finest wavelet, in radians per pixel
_ENVELOPE_DEVIATIONS = 3  # number of standard deviations at which an envelope ends
_CHUNK_ROWS = 64  # number of rows whose maps are in memory at the same time


def scatter(rows: Rows, scales: int) -> Rows:
    """Return the scattering coefficients of order 0, 1 and 2 of a square image with one or three channels.

    A wavelet is a Gaussian times a wave, minus a multiple of the Gaussian that makes its sum 0. There are `scales`
    sizes, each twice as wide as the previous one, in ANGLES directions. The image, |x * ψ| for every wavelet ψ, and
    ||x * ψ| * ψ'| for every wider ψ' are averaged with a Gaussian around the centre of each square of 2^scales pixels
    a side. Each of the resulting maps is then centred and divided by its standard deviation plus FLOOR. Outside the
    image, the pixels at its edge are repeated.

    The columns are ordered by map: first the channels, then for each scale all (channel, direction), then for each
    pair of scales all (channel, direction, wider wavelet's direction).

    Raises:
        DataError: if the features are not such an image.
    """
    columns = scatter_width(rows.shape[1], scales)
    channels, pixels = image_shape(rows.shape[1], scales)
    coefficients = np.empty((len(rows), columns))
    for start in range(0, len(rows), _CHUNK_ROWS):
        images = rows[start : start + _CHUNK_ROWS].reshape(-1, channels, pixels, pixels)
        coefficients[start : start + _CHUNK_ROWS] = _scattering_maps(images, scales).reshape(-1, columns)
    return coefficients


def scatter_width(features: int, scales: int) -> int:
    """Return the number of columns that `scatter` produces.

    Raises:
        DataError: see `scatter`.
    """
    channels, pixels = image_shape(features, scales)
    maps = 1 + ANGLES * scales + ANGLES**2 * scales * (scales - 1) // 2
    return channels * maps * (pixels >> scales) ** 2


def image_shape(features: int, scales: int) -> tuple[int, int]:
    """Return the number of channels, 1 or 3, and the number of pixels along one side of an image.

    Raises:
        DataError: if the features are not an image that divides into squares of 2^scales pixels a side.
    """
    channels = 1 if math.isqrt(features) ** 2 == features else 3
    pixels = math.isqrt(features // channels)
    if channels * pixels * pixels != features or scales > pixels.bit_length() or pixels % (1 << scales):
        raise DataError(
            f"scatter({scales}): {features} features are not a square image with one or three channels and a "
            f"side divisible by 2^{scales}. Remove this step from data.transform, or use a different number."
        )
    return channels, pixels


@lru_cache(maxsize=8)
def envelope(scale: int) -> Rows:
    """Return a wavelet's Gaussian, float64[2 r + 1] with sum 1, which is cached and must not be changed."""
    sigma = _WIDTH * 2**scale
    reach = math.ceil(_ENVELOPE_DEVIATIONS * sigma)
    return _gaussian(np.arange(-reach, reach + 1.0), sigma)


@lru_cache(maxsize=8)
def average(scales: int) -> Rows:
    """Return the Gaussian for averages around squares 2^scales pixels wide, float64[2^scales + 2 r] with sum 1.

    The array is cached, so it must not be changed.
    """
    sigma, side = _WIDTH * 2**scales, 1 << scales
    reach = math.ceil(_ENVELOPE_DEVIATIONS * sigma) - side // 2
    return _gaussian(np.arange(side + 2 * reach) - (side + 2 * reach - 1) / 2, sigma)


def _gaussian(positions: Rows, sigma: float) -> Rows:
    weights = np.exp(-(positions**2) / (2 * sigma**2))
    weights /= weights.sum()
    return weights


@lru_cache(maxsize=32)
def waves(scale: int, angle: int) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return a wavelet's two factors, down and across the image, before the correction that makes its sum 0."""
    weights = envelope(scale)
    positions = np.arange(len(weights)) - len(weights) // 2
    radians = math.pi * angle / ANGLES
    down, across = (_FREQUENCY / 2**scale * direction for direction in (math.sin(radians), math.cos(radians)))
    return weights * np.exp(1j * down * positions), weights * np.exp(1j * across * positions)


def correction(scale: int, angle: int) -> float:
    """Return the multiple of the Gaussian that is subtracted from a wavelet to make its sum 0."""
    down, across = waves(scale, angle)
    return float((down.sum() * across.sum()).real)


def wavelet(scale: int, angle: int) -> NDArray[np.complex128]:
    """Return a wavelet, complex128[2 r + 1, 2 r + 1]; its sum is 0, up to rounding."""
    product: NDArray[np.complex128] = np.outer(*waves(scale, angle))
    return product - correction(scale, angle) * np.outer(envelope(scale), envelope(scale))


def _scattering_maps(images: Rows, scales: int) -> Rows:
    """Return images' normalised maps: float64[n, channels, pixels, pixels] → float64[n, maps, cells²].

    Uses only elementwise operations and sums along rows in a fixed order, so other images do not affect the result.
    """
    first_order = [_wavelet_moduli(images, scale) for scale in range(scales)]
    second_order = [
        _wavelet_moduli(first_order[narrow], wide) for narrow in range(scales) for wide in range(narrow + 1, scales)
    ]
    maps = np.concatenate([_average_squares(part, scales) for part in (images, *first_order, *second_order)], axis=1)
    flat = np.ascontiguousarray(maps).reshape(*maps.shape[:2], -1)
    flat -= flat.mean(axis=2, keepdims=True)
    flat /= np.sqrt((flat * flat).mean(axis=2, keepdims=True)) + FLOOR
    return flat


def _wavelet_moduli(maps: Rows, scale: int) -> Rows:
    """Return the moduli for all wavelets at a scale: float64[n, maps, p, p] → float64[n, maps · ANGLES, p, p]."""
    gaussian = envelope(scale)
    padded_maps = _pad_edges(maps, len(gaussian) // 2)
    smooth = weighted_sums(weighted_sums(padded_maps, gaussian).swapaxes(2, 3), gaussian)
    moduli = np.empty((*maps.shape[:2], ANGLES, *maps.shape[2:]))
    for angle in range(ANGLES):
        down, across = waves(scale, angle)
        real, imaginary = (weighted_sums(padded_maps, part).swapaxes(2, 3) for part in (down.real, down.imag))
        real_part = weighted_sums(real, across.real) - weighted_sums(imaginary, across.imag)
        imaginary_part = weighted_sums(real, across.imag) + weighted_sums(imaginary, across.real)
        real_part -= correction(scale, angle) * smooth
        moduli[:, :, angle] = np.sqrt(real_part * real_part + imaginary_part * imaginary_part).swapaxes(2, 3)
    return moduli.reshape(len(maps), -1, *maps.shape[2:])


def _average_squares(maps: Rows, scales: int) -> Rows:
    """Return the averages around each square: float64[n, maps, p, p] → float64[n, maps, p / 2^scales, p / 2^scales]."""
    weights, side = average(scales), 1 << scales
    reach = (len(weights) - side) // 2
    rows = weighted_sums(_pad_edges(maps, reach), weights, side).swapaxes(2, 3)
    return weighted_sums(rows, weights, side).swapaxes(2, 3)


def _pad_edges(maps: Rows, reach: int) -> Rows:
    return np.pad(maps, ((0, 0), (0, 0), (reach, reach), (reach, reach)), mode="edge")
