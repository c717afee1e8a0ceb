"""Windows that slide over images: their places and contents."""

from dataclasses import dataclass
from math import prod
from typing import Annotated

from msgspec import Meta

from sottovoce_lab.models.layers.layer import Count, Shape, pixels
from sottovoce_lab.models.tape import Tape, Value

_TWO = Meta(min_length=2, max_length=2)  # a tuple[Count, Count] in a union crashes msgspec 0.22
Pair = Count | Annotated[tuple[Count, ...], _TWO]
"""Height and width; a single number stands for both."""
_Border = Annotated[int, Meta(ge=0, le=65_536)]
Border = _Border | Annotated[tuple[_Border, ...], _TWO]


@dataclass(frozen=True, slots=True)
class Axis:
    """Windows along the height or the width.

    Attributes:
        size: size of the image.
        kernel: kernel of a window.
        stride: distance from one window to the next.
        padding: padding on each side.
    """

    size: int
    kernel: int
    stride: int
    padding: int

    @property
    def places(self) -> int:
        """Number of windows."""
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def rest(self) -> int:
        """Part of the padded image behind the last window."""
        return (self.size + 2 * self.padding - self.kernel) % self.stride


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over an image.

    Attributes:
        channels: channels of the image.
        axes: axes of the image's height and width.
    """

    channels: int
    axes: tuple[Axis, Axis]

    @property
    def kernel(self) -> tuple[int, int]:
        """Size of a window."""
        return self.axes[0].kernel, self.axes[1].kernel

    @property
    def places(self) -> tuple[int, int]:
        """Number of places of the windows along each axis."""
        return self.axes[0].places, self.axes[1].places

    @property
    def disjoint(self) -> bool:
        """Whether windows tile the image without padding, so that no number is in two windows."""
        return all(axis.stride == axis.kernel and not axis.padding for axis in self.axes)

    @property
    def attributes(self) -> dict[str, list[int]]:
        """Attributes for operators."""
        padding = [axis.padding for axis in self.axes]
        return {"strides": [axis.stride for axis in self.axes], "pads": [*padding, *padding]}

    def rows(self, tape: Tape, x: Value) -> list[Value]:
        """Return the windows' contents, one array per row of the kernel, each real[B, channels · kernel width, places].

        Args:
            tape: the tape to write on.
            x: the image, real[B, channels, height, width].
        """
        high, wide = self.axes
        if high.padding or wide.padding:
            borders = (0, 0, high.padding, wide.padding)
            x = tape.op("Pad", x, tape.integers(*borders, *borders))
        deep = high.size + 2 * high.padding
        across = tape.op("Concat", *(_slice_windows(tape, x, 3, wide, column) for column in range(wide.kernel)), axis=2)
        seen = tape.reshape(across, -1, self.channels, wide.kernel, deep, wide.places)
        parts = (_slice_windows(tape, seen, 3, high, row) for row in range(high.kernel))
        return [tape.reshape(part, -1, self.channels * wide.kernel, prod(self.places)) for part in parts]

    def spread(self, tape: Tape, D: Value, weight: Value) -> Value:
        """Assemble an image real[B, channels, height, width] from windows, which add up where they overlap.

        Args:
            tape: the tape to write on.
            D: coefficients of the windows, real[B, M, *places].
            weight: contents of the windows, real[M, channels, *kernel].
        """
        rest = [axis.rest for axis in self.axes]
        return tape.op("ConvTranspose", D, weight, output_padding=rest, **self.attributes)


def _slice_windows(tape: Tape, x: Value, dimension: int, axis: Axis, first: int) -> Value:
    """Return the element of a dimension at a given place of each window."""
    numbers = (first, first + (axis.places - 1) * axis.stride + 1, dimension, axis.stride)
    return tape.op("Slice", x, *(tape.integers(number) for number in numbers))


def windows(kind: str, shape: Shape, kernel: Pair, stride: Pair, padding: Border) -> Windows:
    """Return the windows over an input.

    Args:
        kind: kind of the layer, for errors.
        shape: shape of the layer's input.
        kernel: size of a window.
        stride: distance from one window to the next.
        padding: padding on each side.

    Raises:
        ValueError: if there are no windows; the message begins with the key to change.
    """
    channels, *sizes = pixels(shape, kind)
    high, wide = (Axis(*numbers) for numbers in zip(sizes, _both(kernel), _both(stride), _both(padding), strict=True))
    for axis in (high, wide):
        if axis.kernel > axis.size + 2 * axis.padding:
            raise ValueError(f"kernel: {axis.kernel} is larger than the padded input, {axis.size + 2 * axis.padding}")
    return Windows(channels, (high, wide))


def _both(pair: int | tuple[int, ...]) -> tuple[int, ...]:
    return (pair, pair) if isinstance(pair, int) else pair
