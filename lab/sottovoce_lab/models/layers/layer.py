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
"""Maps each example's loss gradient by a layer's output to those by its input and its parameters."""


class Layer(Protocol):
    """A layer as it is declared. The input's shape is that of one example, without the batch."""

    name: ClassVar[str]
    """Prefix of its parameters' names, before a number: `conv`. Empty if it has none."""
    passes: ClassVar[bool]
    """Whether earlier weights start as for the activation after it: it is neither an activation nor a product."""

    def output(self, shape: Shape) -> Shape:
        """The shape of its output.

        Raises:
            ValueError: if it does not take such an input; begins with the key to change.
        """
        ...

    def parameters(self, shape: Shape, *, rectified: bool) -> tuple[ParameterFacts, ...]:
        """Its tensors, named `weight` and `bias`.

        Args:
            shape: shape of the input.
            rectified: a ReLU follows.
        """
        ...

    def apply(self, tape: Tape, x: Value, shape: Shape, weights: Sequence[Value]) -> tuple[Value, Pullback]:
        """Writes the forward pass; the returned function writes the backward pass.

        Args:
            tape: to write on.
            x: real[B, *shape].
            shape: shape of the input.
            weights: as `parameters` has them.
        """
        ...


class Declared(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """A table of a declaration's `layers`."""


def drawn(shape: Shape, fan_in: int, fan_out: int, *, rectified: bool) -> ParameterFacts:
    """A weight with uniform initial values in a range that suits the next layer.

    ±√(6 / fan_in) before a ReLU (He et al. 2015), else ±√(6 / (fan_in + fan_out)) (Glorot & Bengio 2010, equation 16).
    """
    fan = fan_in if rectified else fan_in + fan_out
    return ParameterFacts("weight", shape, "uniform", sqrt(6 / fan))


def constant(name: str, shape: Shape, value: float) -> ParameterFacts:
    """A tensor whose initial values are all equal."""
    return ParameterFacts(name, shape, "constant", value)


def pixels(shape: Shape, kind: str) -> tuple[int, int, int]:
    """Channels, height and width of the input of a layer that needs them.

    Raises:
        ValueError: if it is of another rank.
    """
    if len(shape) != 3:
        raise ValueError(f"kind: {kind} needs channels, height and width, but its input is {text(shape)}")
    channels, height, width = shape
    return channels, height, width


def text(shape: Shape) -> str:
    """A shape as people write it: 16 × 28 × 28."""
    return " × ".join(str(size) for size in shape)
