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
    """The windows along one axis, the height or the width.

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
    def positions(self) -> int:
        """The number of windows."""
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def remainder(self) -> int:
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
    def positions(self) -> tuple[int, int]:
        """The number of windows along each axis."""
        return self.axes[0].positions, self.axes[1].positions

    @property
    def are_disjoint(self) -> bool:
        """Whether the windows tile the image without padding and therefore do not overlap."""
        return all(axis.stride == axis.kernel and not axis.padding for axis in self.axes)

    @property
    def attributes(self) -> dict[str, list[int]]:
        """The strides and pads, as attributes for ONNX operators."""
        padding = [axis.padding for axis in self.axes]
        return {"strides": [axis.stride for axis in self.axes], "pads": [*padding, *padding]}

    def rows(self, tape: Tape, x: Value) -> list[Value]:
        """Record the windows' contents, with one tensor real[B, channels · kernel width, positions] per kernel row.

        Args:
            tape: the tape on which to record operations.
            x: the image, real[B, channels, height, width].
        """
        vertical, horizontal = self.axes
        if vertical.padding or horizontal.padding:
            borders = (0, 0, vertical.padding, horizontal.padding)
            x = tape.op("Pad", x, tape.integers(*borders, *borders))
        padded_height = vertical.size + 2 * vertical.padding
        concatenated = tape.op(
            "Concat", *(_slice_windows(tape, x, 3, horizontal, column) for column in range(horizontal.kernel)), axis=2
        )
        columns = tape.reshape(concatenated, -1, self.channels, horizontal.kernel, padded_height, horizontal.positions)
        parts = (_slice_windows(tape, columns, 3, vertical, row) for row in range(vertical.kernel))
        return [tape.reshape(part, -1, self.channels * horizontal.kernel, prod(self.positions)) for part in parts]

    def spread(self, tape: Tape, D: Value, weight: Value) -> Value:
        """Assemble an image real[B, channels, height, width] from windows, adding up values where windows overlap.

        Args:
            tape: the tape on which to record operations.
            D: the window coefficients, real[B, M, *positions].
            weight: the window contents, real[M, channels, *kernel].
        """
        rest = [axis.remainder for axis in self.axes]
        return tape.op("ConvTranspose", D, weight, output_padding=rest, **self.attributes)


def _slice_windows(tape: Tape, x: Value, dimension: int, axis: Axis, first: int) -> Value:
    """Slice a tensor along one axis to select the element at offset `first` in each window."""
    numbers = (first, first + (axis.positions - 1) * axis.stride + 1, dimension, axis.stride)
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
    vertical, horizontal = (
        Axis(*numbers) for numbers in zip(sizes, _as_pair(kernel), _as_pair(stride), _as_pair(padding), strict=True)
    )
    for axis in (vertical, horizontal):
        if axis.kernel > axis.size + 2 * axis.padding:
            raise ValueError(f"kernel: {axis.kernel} is larger than the padded input, {axis.size + 2 * axis.padding}")
    return Windows(channels, (vertical, horizontal))


def _as_pair(pair: int | tuple[int, ...]) -> tuple[int, ...]:
    return (pair, pair) if isinstance(pair, int) else pair
