"""Pooling layers, which reduce each window to one number per channel."""

from collections.abc import Sequence
from math import prod
from typing import ClassVar, Literal

import numpy as np
from onnx import numpy_helper
from sottovoce.kernels.onnx.facts import ParameterFacts

from sottovoce_lab.models.layers.layer import Declared, Pullback, Shape, pixels
from sottovoce_lab.models.layers.windows import Border, Pair, Windows, windows
from sottovoce_lab.models.tape import Tape, Value

_HUGE = 1e30
_MAX_COMPARED = 32
"""Maximum window size for pooling by comparison; above it, one pooling per place is slower than a search."""


class _Pool(Declared, frozen=True, kw_only=True):
    """Base class for pooling layers, which have no parameters."""

    stride: Pair | None = None
    padding: Border = 0

    name: ClassVar[str] = ""
    passes: ClassVar[bool] = True

    def output(self, shape: Shape) -> Shape:
        """Return the output shape; see Layer.output."""
        return (shape[0], *self._windows(shape).places)

    def parameters(self, shape: Shape, *, rectified: bool) -> tuple[ParameterFacts, ...]:
        """Return no parameters; see Layer.parameters."""
        return ()

    def _windows(self, shape: Shape) -> Windows:
        raise NotImplementedError

    def _overlapping_windows(self, shape: Shape, kernel: Pair) -> Windows:
        """Return the windows, all of which must overlap the image, because the others would have no maximum.

        Raises:
            ValueError: if the padding is not smaller than the kernel.
        """
        seen = windows("pooling", shape, kernel, kernel if self.stride is None else self.stride, self.padding)
        for axis in seen.axes:
            if axis.padding >= axis.kernel:
                raise ValueError(f"padding: {axis.padding} is not less than kernel = {axis.kernel}")
        return seen


class MaxPool(_Pool, frozen=True, tag="max-pool"):
    """Max pooling, which outputs the largest number in each window.

    Attributes:
        kernel: the window size, as one number or as height and width.
        stride: the distance between consecutive windows; by default the kernel size.
        padding: the padding on each side, whose values are never the maximum.
    """

    kernel: Pair

    def apply(self, tape: Tape, x: Value, shape: Shape, weights: Sequence[Value]) -> tuple[Value, Pullback]:
        """Record both passes; see Layer.apply. Of several maxima, the first one receives the whole gradient."""
        seen = self._windows(shape)
        small = seen.disjoint and prod(seen.kernel) <= _MAX_COMPARED
        return _pool_by_comparison(tape, x, seen) if small else _pool_by_search(tape, x, shape, seen)

    def _windows(self, shape: Shape) -> Windows:
        return self._overlapping_windows(shape, self.kernel)


class AveragePool(_Pool, frozen=True, tag="average-pool"):
    """Average pooling, which outputs the mean of each window, including padding.

    Attributes:
        kernel: the window size, as one number or as height and width; `all` means one window over the whole image.
        stride: the distance between consecutive windows; by default the kernel size.
        padding: the number of zeros on each side.
    """

    kernel: Pair | Literal["all"]

    def apply(self, tape: Tape, x: Value, shape: Shape, weights: Sequence[Value]) -> tuple[Value, Pullback]:
        """Record both passes, dividing the gradient evenly and treating each channel as an image; see Layer.apply."""
        seen = self._windows(shape)
        y = tape.op("AveragePool", x, kernel_shape=list(seen.kernel), count_include_pad=1, **seen.attributes)

        def back(D: Value) -> tuple[Value, tuple[()]]:
            share = tape.constant(np.full((1, 1, *seen.kernel), 1 / prod(seen.kernel)))
            spread = seen.spread(tape, tape.reshape(D, -1, 1, *seen.places), share)
            return tape.reshape(spread, -1, *shape), ()

        return y, back

    def _windows(self, shape: Shape) -> Windows:
        if self.kernel == "all":
            _, high, wide = pixels(shape, "average-pool")
            return windows("average-pool", shape, (high, wide), 1, 0)
        return self._overlapping_windows(shape, self.kernel)


def _pool_by_comparison(tape: Tape, x: Value, seen: Windows) -> tuple[Value, Pullback]:
    """Pool small disjoint windows by comparisons, since ONNX Runtime finds maxima quickly but locates them slowly."""
    y = tape.op("MaxPool", x, kernel_shape=list(seen.kernel), **seen.attributes)

    def back(D: Value) -> tuple[Value, tuple[()]]:
        places = tape.op("Add", _corners(tape, y, seen), tape.cast(_offsets(tape, x, y, seen), np.int64))
        spread = tape.op("MaxUnpool", D, places, kernel_shape=list(seen.kernel), **seen.attributes)
        rest = [axis.rest for axis in seen.axes]
        return tape.op("Pad", spread, tape.integers(0, 0, 0, 0, 0, 0, *rest)) if any(rest) else spread, ()

    return y, back


def _offsets(tape: Tape, x: Value, y: Value, seen: Windows) -> Value:
    """Return each window's first maximum as an offset from the window's corner, int32[B, channels, *places].

    The offset belongs to the first place, in C order, for which the rows and columns up to that place contain a number
    equal to y, which one pooling per place finds. If there is no such place, which can happen with NaN, the offset is
    that
    of the last place.
    """
    *others, last = np.ndindex(*seen.kernel)
    high, wide = (count * step for count, step in zip(seen.places, seen.kernel, strict=True))
    if any(axis.rest for axis in seen.axes):
        x = tape.op("Slice", x, *(tape.integers(*pair) for pair in ((0, 0), (high, wide), (2, 3))))

    def offset(place: Sequence[int]) -> Value:
        return tape.constant(place[0] * wide + place[1], np.int32)

    found = offset(last)
    for place in reversed(others):
        largest = tape.op("MaxPool", x, kernel_shape=[index + 1 for index in place], **seen.attributes)
        found = tape.op("Where", tape.op("Equal", largest, y), offset(place), found)
    return found


def _corners(tape: Tape, y: Value, seen: Windows) -> Value:
    """Return the index of each window's corner in the flat tensor of all pooled images, int64[B, channels, *places]."""
    each, area = prod(seen.places), prod(seen.kernel)
    numbers = tape.op("Range", tape.constant(0, np.int64), tape.op("Size", y), tape.constant(each, np.int64))
    images = tape.reshape(tape.op("Mul", numbers, tape.constant(area, np.int64)), -1, seen.channels, 1, 1)
    rows, columns = (np.arange(count) * step for count, step in zip(seen.places, seen.kernel, strict=True))
    corners = rows[:, np.newaxis] * len(columns) * seen.kernel[1] + columns
    return tape.op("Add", images, tape.constant(corners, np.int64))


def _pool_by_search(tape: Tape, x: Value, shape: Shape, seen: Windows) -> tuple[Value, Pullback]:
    """Pool arbitrary windows by searching for the maximum.

    The gradient requires the place of the maximum, which is undefined for NaN. NaN is therefore treated as 0, and
    infinities are treated as ±10³⁰.
    """
    number = tape.op("Where", tape.op("IsNaN", x), tape.constant(0), x)
    bounded = tape.op("Clip", number, tape.constant(-_HUGE), tape.constant(_HUGE))
    y, places = tape.ops("MaxPool", 2, bounded, kernel_shape=list(seen.kernel), **seen.attributes)

    def back(D: Value) -> tuple[Value, tuple[()]]:
        flat = [tape.reshape(tensor, -1) for tensor in (x, places, D)]
        zero = numpy_helper.from_array(np.zeros(1, tape.real))
        nothing = tape.op("ConstantOfShape", tape.op("Shape", flat[0]), value=zero)
        spread = tape.op("ScatterElements", nothing, *flat[1:], axis=0, reduction="add")
        return tape.reshape(spread, -1, *shape), ()

    return y, back
