"""Pooling layers, which reduce each window to one number per channel."""

from collections.abc import Sequence
from math import prod
from typing import ClassVar, Literal

import numpy as np
from onnx import numpy_helper
from sottovoce.kernels.onnx.facts import ParameterFacts

from sottovoce_lab.models.layers.layer import LayerDeclaration, Pullback, Shape, pixels
from sottovoce_lab.models.layers.windows import Border, Pair, Windows, windows
from sottovoce_lab.models.tape import Tape, Value

_HUGE = 1e30
_MAX_COMPARED = 32
"""Maximum window size for pooling by comparison; above it, one pooling per position is slower than a search."""


class _Pool(LayerDeclaration, frozen=True, kw_only=True):
    """Base class for pooling layers, which have no parameters."""

    stride: Pair | None = None
    padding: Border = 0

    name: ClassVar[str] = ""
    passes: ClassVar[bool] = True

    def output(self, shape: Shape) -> Shape:
        """Return the output shape; see Layer.output."""
        return (shape[0], *self._windows(shape).positions)

    def parameters(self, shape: Shape, *, rectified: bool) -> tuple[ParameterFacts, ...]:
        """Return no parameters; see Layer.parameters."""
        return ()

    def _windows(self, shape: Shape) -> Windows:
        raise NotImplementedError

    def _overlapping_windows(self, shape: Shape, kernel: Pair) -> Windows:
        """Return the windows, all of which must overlap the image, because a window outside it would have no maximum.

        Raises:
            ValueError: if the padding is not smaller than the kernel.
        """
        layout = windows("pooling", shape, kernel, kernel if self.stride is None else self.stride, self.padding)
        for axis in layout.axes:
            if axis.padding >= axis.kernel:
                raise ValueError(f"padding: {axis.padding} is not less than kernel = {axis.kernel}")
        return layout


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
        layout = self._windows(shape)
        is_small = layout.are_disjoint and prod(layout.kernel) <= _MAX_COMPARED
        return _pool_by_comparison(tape, x, layout) if is_small else _pool_by_search(tape, x, shape, layout)

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
        layout = self._windows(shape)
        y = tape.op("AveragePool", x, kernel_shape=list(layout.kernel), count_include_pad=1, **layout.attributes)

        def pull_back(D: Value) -> tuple[Value, tuple[()]]:
            share = tape.constant(np.full((1, 1, *layout.kernel), 1 / prod(layout.kernel)))
            spread = layout.spread(tape, tape.reshape(D, -1, 1, *layout.positions), share)
            return tape.reshape(spread, -1, *shape), ()

        return y, pull_back

    def _windows(self, shape: Shape) -> Windows:
        if self.kernel == "all":
            _, high, wide = pixels(shape, "average-pool")
            return windows("average-pool", shape, (high, wide), 1, 0)
        return self._overlapping_windows(shape, self.kernel)


def _pool_by_comparison(tape: Tape, x: Value, layout: Windows) -> tuple[Value, Pullback]:
    """Pool small disjoint windows by comparisons, because ONNX Runtime finds maxima quickly but locates them slowly."""
    y = tape.op("MaxPool", x, kernel_shape=list(layout.kernel), **layout.attributes)

    def pull_back(D: Value) -> tuple[Value, tuple[()]]:
        positions = tape.op("Add", _corners(tape, y, layout), tape.cast(_offsets(tape, x, y, layout), np.int64))
        spread = tape.op("MaxUnpool", D, positions, kernel_shape=list(layout.kernel), **layout.attributes)
        rest = [axis.remainder for axis in layout.axes]
        return tape.op("Pad", spread, tape.integers(0, 0, 0, 0, 0, 0, *rest)) if any(rest) else spread, ()

    return y, pull_back


def _offsets(tape: Tape, x: Value, y: Value, layout: Windows) -> Value:
    """Return each window's first maximum as an offset from the window's corner, int32[B, channels, *positions].

    The offset belongs to the first position, in C order, for which the rows and columns up to that position contain a
    number equal to y; one pooling per position finds it. If there is no such position, which can happen with NaN, the
    offset is that of the last position.
    """
    *earlier, last = np.ndindex(*layout.kernel)
    height, width = (count * step for count, step in zip(layout.positions, layout.kernel, strict=True))
    if any(axis.remainder for axis in layout.axes):
        x = tape.op("Slice", x, *(tape.integers(*pair) for pair in ((0, 0), (height, width), (2, 3))))

    def offset(position: Sequence[int]) -> Value:
        return tape.constant(position[0] * width + position[1], np.int32)

    result = offset(last)
    for position in reversed(earlier):
        largest = tape.op("MaxPool", x, kernel_shape=[index + 1 for index in position], **layout.attributes)
        result = tape.op("Where", tape.op("Equal", largest, y), offset(position), result)
    return result


def _corners(tape: Tape, y: Value, layout: Windows) -> Value:
    """Return each window corner's index in the flat tensor of all pooled images, int64[B, channels, *positions]."""
    per_image, area = prod(layout.positions), prod(layout.kernel)
    numbers = tape.op("Range", tape.constant(0, np.int64), tape.op("Size", y), tape.constant(per_image, np.int64))
    images = tape.reshape(tape.op("Mul", numbers, tape.constant(area, np.int64)), -1, layout.channels, 1, 1)
    rows, columns = (np.arange(count) * step for count, step in zip(layout.positions, layout.kernel, strict=True))
    corners = rows[:, np.newaxis] * len(columns) * layout.kernel[1] + columns
    return tape.op("Add", images, tape.constant(corners, np.int64))


def _pool_by_search(tape: Tape, x: Value, shape: Shape, layout: Windows) -> tuple[Value, Pullback]:
    """Pool arbitrary windows by searching for the maximum.

    The gradient requires the position of the maximum, which is undefined for NaN. NaN is therefore treated as 0, and
    infinities are treated as ±10³⁰.
    """
    number = tape.op("Where", tape.op("IsNaN", x), tape.constant(0), x)
    bounded = tape.op("Clip", number, tape.constant(-_HUGE), tape.constant(_HUGE))
    y, positions = tape.ops("MaxPool", 2, bounded, kernel_shape=list(layout.kernel), **layout.attributes)

    def pull_back(D: Value) -> tuple[Value, tuple[()]]:
        flat = [tape.reshape(tensor, -1) for tensor in (x, positions, D)]
        zero = numpy_helper.from_array(np.zeros(1, tape.real))
        zeros = tape.op("ConstantOfShape", tape.op("Shape", flat[0]), value=zero)
        spread = tape.op("ScatterElements", zeros, *flat[1:], axis=0, reduction="add")
        return tape.reshape(spread, -1, *shape), ()

    return y, pull_back
