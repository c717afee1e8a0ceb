"""Implement the declared transform as the first part of a graph whose model then accepts raw features.

The steps are those in sottovoce.data.transform, computed in float32. `pool` and `dct` are not supported.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import scattering
from sottovoce.data.steps import HOG_DIRECTIONS, HOG_FLOOR, hog_weights
from sottovoce.data.transform import NEW_COLUMNS, step_width
from sottovoce.kernels.profile import harmonic_waves

from sottovoce_lab.models.tape import Tape, Value

Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]
Steps = Sequence[tuple[str, float]]


def has_prelude(steps: Steps) -> bool:
    """Return whether all steps in a transform can be implemented as part of a graph."""
    return all(name in _STEPS for name, _ in steps)


def record_prelude(tape: Tape, features: Value, steps: Steps, bounds: Bounds | None, columns: int) -> Value:
    """Record the transform, and return the transformed features, the model's input, real[B, columns].

    Args:
        tape: the tape on which to record operations.
        features: the raw features, real[B, d].
        steps: the steps in the transform, each with its numeric argument.
        bounds: the declared minimum and maximum values, each float64[d]; None if no bounds are declared.
        columns: the number d of features.
    """
    if bounds is not None:
        low, high = (tape.constant(side) for side in bounds)
        features = tape.op("Min", tape.op("Max", features, low), high)
    for name, number in steps:
        features = _STEPS[name](tape, features, bounds, number, columns)
        columns = step_width(name, number, columns)
        if name in NEW_COLUMNS:
            bounds = None  # the bounds apply only to the old columns
    return features


def _squash(tape: Tape, x: Value, bounds: Bounds | None, scale: float, columns: int) -> Value:
    if bounds is None:
        return _log(tape, x, bounds, scale, columns)
    low, high = bounds
    span = high - low
    factor = np.divide(1.0, span, out=np.zeros_like(span), where=span > 0)
    return tape.op("Mul", tape.op("Sub", x, tape.constant(low)), tape.constant(factor))


def _log(tape: Tape, x: Value, bounds: Bounds | None, scale: float, columns: int) -> Value:
    magnitude = tape.op("Div", tape.op("Abs", x), tape.constant(scale))
    return tape.op("Mul", tape.op("Sign", x), tape.op("Log", tape.op("Add", tape.constant(1), magnitude)))


def _hog(tape: Tape, x: Value, bounds: Bounds | None, side: float, columns: int) -> Value:
    pixels, size = math.isqrt(columns), int(side)
    cells = pixels // size
    image = tape.reshape(x, 0, 1, pixels, pixels)
    padded = tape.op("Pad", image, tape.integers(0, 0, 1, 1, 0, 0, 1, 1), mode="edge")

    def shifted(top: int, left: int) -> Value:
        ends = tape.integers(top + pixels, left + pixels)
        return tape.op("Slice", padded, tape.integers(top, left), ends, tape.integers(2, 3))

    horizontal, vertical = tape.op("Sub", shifted(1, 2), shifted(1, 0)), tape.op("Sub", shifted(2, 1), shifted(0, 1))
    squares = tape.op("Add", tape.op("Mul", horizontal, horizontal), tape.op("Mul", vertical, vertical))
    strength = tape.op("Sqrt", squares)
    kernel = tape.constant(np.outer(hog_weights(size), hog_weights(size))[np.newaxis, np.newaxis])
    pad_before, pad_after = size // 2, size - size // 2
    sums = []
    for cosine, sine in HOG_DIRECTIONS:
        components = tape.op("Mul", horizontal, tape.constant(cosine)), tape.op("Mul", vertical, tape.constant(sine))
        projection = tape.op("Div", tape.op("Add", *components), _nonzero(tape, strength))
        aligned = tape.op("Mul", projection, projection)
        votes = tape.op("Mul", tape.op("Mul", aligned, aligned), strength)
        sums.append(
            tape.op("Conv", votes, kernel, strides=[size, size], pads=[pad_before, pad_before, pad_after, pad_after])
        )
    histogram = tape.op("Concat", *sums, axis=1)
    norm = tape.op("ReduceL2", histogram, tape.integers(1), keepdims=1)
    scaled = tape.op("Div", histogram, tape.op("Add", norm, tape.constant(HOG_FLOOR * size * size)))
    return tape.reshape(tape.op("Transpose", scaled, perm=[0, 2, 3, 1]), 0, cells * cells * len(HOG_DIRECTIONS))


def _scatter(tape: Tape, x: Value, bounds: Bounds | None, number: float, columns: int) -> Value:
    scales = int(number)
    channels, pixels = scattering.image_shape(columns, scales)
    weights, side = scattering.average(scales), 1 << scales

    def apply_filters(maps: Value, count: int, kernels: Sequence[NDArray[np.float64]], stride: int = 1) -> Value:
        """Apply every kernel to each of `count` maps, padded by repeating their edge pixels."""
        margin = (kernels[0].shape[0] - stride) // 2
        padded = tape.op("Pad", maps, tape.integers(0, 0, margin, margin, 0, 0, margin, margin), mode="edge")
        filters = tape.constant(np.tile(np.stack(kernels), (count, 1, 1))[:, np.newaxis])
        return tape.op("Conv", padded, filters, group=count, strides=[stride, stride])

    def absolute(maps: Value, count: int, scale: int) -> Value:
        wavelets = [scattering.wavelet(scale, angle) for angle in range(scattering.ANGLES)]
        real, imaginary = (
            apply_filters(maps, count, [part(wavelet) for wavelet in wavelets]) for part in (np.real, np.imag)
        )
        return tape.op("Sqrt", tape.op("Add", tape.op("Mul", real, real), tape.op("Mul", imaginary, imaginary)))

    first_count, second_count = channels * scattering.ANGLES, channels * scattering.ANGLES**2
    image = tape.reshape(x, 0, channels, pixels, pixels)
    first = [absolute(image, channels, scale) for scale in range(scales)]
    second = [
        absolute(first[narrow], first_count, wide) for narrow in range(scales) for wide in range(narrow + 1, scales)
    ]
    maps_with_counts = [
        (image, channels),
        *((maps, first_count) for maps in first),
        *((maps, second_count) for maps in second),
    ]
    averaged = [apply_filters(maps, count, [np.outer(weights, weights)], side) for maps, count in maps_with_counts]
    flat = tape.reshape(tape.op("Concat", *averaged, axis=1), 0, sum(count for _, count in maps_with_counts), -1)
    centred = tape.op("Sub", flat, tape.op("ReduceMean", flat, tape.integers(2), keepdims=1))
    squares = tape.op("ReduceMean", tape.op("Mul", centred, centred), tape.integers(2), keepdims=1)
    scaled = tape.op("Div", centred, tape.op("Add", tape.op("Sqrt", squares), tape.constant(scattering.FLOOR)))
    return tape.reshape(scaled, 0, scattering.scatter_width(columns, scales))


def _harmonics(tape: Tape, x: Value, bounds: Bounds | None, count: float, columns: int) -> Value:
    return tape.op("MatMul", x, tape.constant(harmonic_waves(columns, int(count)).T))


def _subtract(tape: Tape, x: Value, bounds: Bounds | None, constant: float, columns: int) -> Value:
    return tape.op("Sub", x, tape.constant(constant))


def _centre(tape: Tape, x: Value, bounds: Bounds | None, number: float, columns: int) -> Value:
    shifted = tape.op("Sub", x, tape.op("Slice", x, *(tape.integers(index) for index in (0, 1, 1))))
    return tape.op("Sub", shifted, tape.op("ReduceMean", shifted, tape.integers(1), keepdims=1))


def _unit(tape: Tape, x: Value, bounds: Bounds | None, number: float, columns: int) -> Value:
    largest = tape.op("ReduceMax", tape.op("Abs", x), tape.integers(1), keepdims=1)
    scaled = tape.op("Div", x, _nonzero(tape, largest))
    return tape.op("Div", scaled, _nonzero(tape, tape.op("ReduceL2", scaled, tape.integers(1), keepdims=1)))


def _rms(tape: Tape, x: Value, bounds: Bounds | None, number: float, columns: int) -> Value:
    u = _unit(tape, x, bounds, number, columns)
    mean = tape.op("ReduceMean", tape.op("Mul", u, u), tape.integers(1), keepdims=1)
    return tape.op("Div", u, tape.op("Sqrt", _nonzero(tape, mean)))


def _bias(tape: Tape, x: Value, bounds: Bounds | None, value: float, columns: int) -> Value:
    return tape.op("Pad", x, tape.integers(0, 0, 0, 1), tape.constant(value))


def _nonzero(tape: Tape, divisor: Value) -> Value:
    return tape.op("Where", tape.op("Greater", divisor, tape.constant(0)), divisor, tape.constant(1))


_STEPS: dict[str, Callable[[Tape, Value, Bounds | None, float, int], Value]] = {
    "squash": _squash,
    "log": _log,
    "hog": _hog,
    "scatter": _scatter,
    "harmonics": _harmonics,
    "subtract": _subtract,
    "centre": _centre,
    "unit": _unit,
    "rms": _rms,
    "bias": _bias,
}
