"""Interface of a layer."""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Annotated, ClassVar, Protocol

from msgspec import Meta, Struct
from sottovoce.kernels.onnx.facts import ParameterFacts

from sottovoce_lab.models.clipping import Contribution
from sottovoce_lab.models.tape import Tape, Value

Shape = tuple[int, ...]
"""Shape of one example's tensor: features, or channels × height × width."""
Count = Annotated[int, Meta(ge=1, le=65_536)]
Pullback = Callable[[Value], tuple[Value, Sequence[Contribution]]]
"""Function from each example's loss gradient by a layer's output to the gradients by its input and its parameters."""


class Layer(Protocol):
    """Layer as declared. The input's shape is that of one example, without the batch."""

    name: ClassVar[str]
    """Prefix of the names of the layer's parameters, before a number: `conv`; empty without parameters."""
    passes: ClassVar[bool]
    """Whether earlier weights start as for the activation after it: the layer is no activation and no product."""

    def output(self, shape: Shape) -> Shape:
        """Return the shape of the layer's output.

        Raises:
            ValueError: if the layer does not take such an input; the message begins with the key to change.
        """
        ...

    def parameters(self, shape: Shape, *, rectified: bool) -> tuple[ParameterFacts, ...]:
        """Return the layer's tensors, named `weight` and `bias`.

        Args:
            shape: shape of the input.
            rectified: whether a ReLU follows.
        """
        ...

    def apply(self, tape: Tape, x: Value, shape: Shape, weights: Sequence[Value]) -> tuple[Value, Pullback]:
        """Write the forward pass; the returned function writes the backward pass.

        Args:
            tape: the tape to write on.
            x: input, real[B, *shape].
            shape: shape of the input.
            weights: the layer's tensors, in the order of `parameters`.
        """
        ...


class Declared(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Table of a declaration's `layers`."""


def uniform_weight(shape: Shape, fan_in: int, fan_out: int, *, rectified: bool) -> ParameterFacts:
    """Return a weight with uniform initial values in a range that suits the next layer.

    ±√(6 / fan_in) before a ReLU (He et al. 2015), else ±√(6 / (fan_in + fan_out)) (Glorot & Bengio 2010, equation 16).
    """
    fan = fan_in if rectified else fan_in + fan_out
    return ParameterFacts("weight", shape, "uniform", sqrt(6 / fan))


def constant(name: str, shape: Shape, value: float) -> ParameterFacts:
    """Return a tensor whose initial values are all equal."""
    return ParameterFacts(name, shape, "constant", value)


def pixels(shape: Shape, kind: str) -> tuple[int, int, int]:
    """Return channels, height and width of the input of a layer that needs them.

    Raises:
        ValueError: if the input is of another rank.
    """
    if len(shape) != 3:
        raise ValueError(f"kind: {kind} needs channels, height and width, but its input is {format_shape(shape)}")
    channels, height, width = shape
    return channels, height, width


def format_shape(shape: Shape) -> str:
    """Format a shape for people: 16 × 28 × 28."""
    return " × ".join(str(size) for size in shape)
