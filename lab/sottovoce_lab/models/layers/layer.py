"""The interface for layers, and functions that all layers share."""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Annotated, ClassVar, Protocol

from msgspec import Meta, Struct
from sottovoce.kernels.onnx.facts import ParameterFacts

from sottovoce_lab.models.clipping import Contribution
from sottovoce_lab.models.tape import Tape, Value

Shape = tuple[int, ...]
"""Tensor shape for one example: features, or channels × height × width."""
Count = Annotated[int, Meta(ge=1, le=65_536)]
Pullback = Callable[[Value], tuple[Value, Sequence[Contribution]]]
"""Maps per-example loss gradients with respect to a layer's output to those for its input and parameters."""


class Layer(Protocol):
    """A declared layer. Input shapes are for one example, without the batch dimension."""

    name: ClassVar[str]
    """Prefix for the layer's parameter names, such as `conv`, followed by a number; empty without parameters."""
    passes: ClassVar[bool]
    """Whether the initial values of earlier weights depend on the activation after this layer.

    This is true for layers that are neither an activation nor a product with weights.
    """

    def output(self, shape: Shape) -> Shape:
        """Return the layer's output shape.

        Raises:
            ValueError: if the layer does not support this input shape; the message begins with the key to change.
        """
        ...

    def parameters(self, shape: Shape, *, rectified: bool) -> tuple[ParameterFacts, ...]:
        """Return the layer's parameter tensors, named `weight` and `bias`.

        Args:
            shape: the input shape.
            rectified: whether a ReLU follows.
        """
        ...

    def apply(self, tape: Tape, x: Value, shape: Shape, weights: Sequence[Value]) -> tuple[Value, Pullback]:
        """Record the forward pass, and return its output and a function that records the backward pass.

        Args:
            tape: the tape on which to record operations.
            x: the input, real[B, *shape].
            shape: the input shape.
            weights: the layer's parameter tensors, in the order of `parameters`.
        """
        ...


class LayerDeclaration(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base class for the tables in a declaration's `layers`."""


def uniform_weight(shape: Shape, fan_in: int, fan_out: int, *, rectified: bool) -> ParameterFacts:
    """Describe a weight whose initial values are uniform in a range that suits the next layer.

    The range is ±√(6 / fan_in) before a ReLU (He et al. 2015), and ±√(6 / (fan_in + fan_out)) elsewhere (Glorot &
    Bengio 2010, equation 16).
    """
    fan = fan_in if rectified else fan_in + fan_out
    return ParameterFacts("weight", shape, "uniform", sqrt(6 / fan))


def constant(name: str, shape: Shape, value: float) -> ParameterFacts:
    """Describe a parameter tensor whose initial values are all equal."""
    return ParameterFacts(name, shape, "constant", value)


def pixels(shape: Shape, kind: str) -> tuple[int, int, int]:
    """Return the channels, height and width of a layer's input, which must be an image.

    Raises:
        ValueError: if the input does not have three dimensions.
    """
    if len(shape) != 3:
        raise ValueError(f"kind: {kind} requires channels, height and width, but its input is {format_shape(shape)}")
    channels, height, width = shape
    return channels, height, width


def format_shape(shape: Shape) -> str:
    """Format a shape for display, for example as 16 × 28 × 28."""
    return " × ".join(str(size) for size in shape)
