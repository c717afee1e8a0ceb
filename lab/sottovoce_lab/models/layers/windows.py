"""The positions and contents of windows that slide over images."""

from dataclasses import dataclass
from math import prod
from typing import Annotated

from msgspec import Meta

from sottovoce_lab.models.layers.layer import Count, Shape, pixels
from sottovoce_lab.models.tape import Tape, Value

_TWO = Meta(min_length=2, max_length=2)  # a tuple[Count, Count] in a union crashes msgspec 0.22
Pair = Count | Annotated[tuple[Count, ...], _TWO]
"""Height and width, or a single number for both."""
_Border = Annotated[int, Meta(ge=0, le=65_536)]
Border = _Border | Annotated[tuple[_Border, ...], _TWO]


@dataclass(frozen=True, slots=True)
class Axis:
    """The windows along one axis, which is the height or the width.

    Attributes:
        size: the image size.
        kernel: the window size.
        stride: the distance between consecutive windows.
        padding: the padding on each side.
    """

    size: int
    kernel: int
    stride: int
    padding: int

    @property
    def places(self) -> int:
        """The number of windows."""
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def rest(self) -> int:
        """How much of the padded image is left after the last window."""
        return (self.size + 2 * self.padding - self.kernel) % self.stride


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows over an image.

    Attributes:
        channels: the number of image channels.
        axes: the windows along the height and along the width.
    """

    channels: int
    axes: tuple[Axis, Axis]

    @property
    def kernel(self) -> tuple[int, int]:
        """The window size, as height and width."""
        return self.axes[0].kernel, self.axes[1].kernel

    @property
    def places(self) -> tuple[int, int]:
        """The number of windows along each axis."""
        return self.axes[0].places, self.axes[1].places

    @property
    def disjoint(self) -> bool:
        """Whether the windows tile the image without padding, so that they do not overlap."""
        return all(axis.stride == axis.kernel and not axis.padding for axis in self.axes)

    @property
    def attributes(self) -> dict[str, list[int]]:
        """The strides and pads, as attributes for ONNX operators."""
        padding = [axis.padding for axis in self.axes]
        return {"strides": [axis.stride for axis in self.axes], "pads": [*padding, *padding]}

    def rows(self, tape: Tape, x: Value) -> list[Value]:
        """Record the windows' contents, with one tensor real[B, channels · kernel width, places] per kernel row.

        Args:
            tape: the tape on which to record operations.
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
        """Assemble an image real[B, channels, height, width] from windows, adding up values where windows overlap.

        Args:
            tape: the tape on which to record operations.
            D: the window coefficients, real[B, M, *places].
            weight: the window contents, real[M, channels, *kernel].
        """
        rest = [axis.rest for axis in self.axes]
        return tape.op("ConvTranspose", D, weight, output_padding=rest, **self.attributes)


def _slice_windows(tape: Tape, x: Value, dimension: int, axis: Axis, first: int) -> Value:
    """Slice a tensor along one axis to select the element at offset `first` in each window."""
    numbers = (first, first + (axis.places - 1) * axis.stride + 1, dimension, axis.stride)
    return tape.op("Slice", x, *(tape.integers(number) for number in numbers))


def windows(kind: str, shape: Shape, kernel: Pair, stride: Pair, padding: Border) -> Windows:
    """Return the windows over a layer's input.

    Args:
        kind: the layer's kind, for error messages.
        shape: the layer's input shape.
        kernel: the window size.
        stride: the distance between consecutive windows.
        padding: the padding on each side.

    Raises:
        ValueError: if the input is not an image or is smaller than a window; the message begins with the key to change.
    """
    channels, *sizes = pixels(shape, kind)
    high, wide = (Axis(*numbers) for numbers in zip(sizes, _both(kernel), _both(stride), _both(padding), strict=True))
    for axis in (high, wide):
        if axis.kernel > axis.size + 2 * axis.padding:
            raise ValueError(f"kernel: {axis.kernel} is larger than the padded input, {axis.size + 2 * axis.padding}")
    return Windows(channels, (high, wide))


def _both(pair: int | tuple[int, ...]) -> tuple[int, ...]:
    return (pair, pair) if isinstance(pair, int) else pair
