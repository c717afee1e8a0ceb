"""Layers without parameters: elementwise activation functions and flattening."""

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from sottovoce.kernels.onnx.facts import ParameterFacts
from typing_extensions import override

from sottovoce_lab.models.layers.layer import LayerDeclaration, Pullback, Shape
from sottovoce_lab.models.tape import Tape, Value


class _Elementwise(LayerDeclaration, frozen=True):
    name: ClassVar[str] = ""
    passes: ClassVar[bool] = False

    def output(self, shape: Shape) -> Shape:
        """Return the output shape, the same as the input shape; see Layer.output."""
        return shape

    def parameters(self, shape: Shape, *, rectified: bool) -> tuple[ParameterFacts, ...]:
        """Return no parameters; see Layer.parameters."""
        return ()


class Relu(_Elementwise, frozen=True, tag="relu"):
    """Rectified linear unit: y = max(0, x)."""

    def apply(self, tape: Tape, x: Value, shape: Shape, weights: Sequence[Value]) -> tuple[Value, Pullback]:
        """Record both passes, with the derivative 0 at 0; see Layer.apply."""
        y = tape.op("Relu", x)
        zero = tape.constant(0)
        return y, lambda D: (tape.op("Where", tape.op("LessOrEqual", y, zero), zero, D), ())


class Tanh(_Elementwise, frozen=True, tag="tanh"):
    """Hyperbolic tangent: y = tanh x."""

    def apply(self, tape: Tape, x: Value, shape: Shape, weights: Sequence[Value]) -> tuple[Value, Pullback]:
        """Record both passes, with the derivative 1 - y²; see Layer.apply."""
        y = tape.op("Tanh", x)
        return y, lambda D: (tape.op("Mul", D, tape.op("Sub", tape.constant(1), tape.op("Mul", y, y))), ())


class Sigmoid(_Elementwise, frozen=True, tag="sigmoid"):
    """Logistic function: y = 1 / (1 + exp(-x))."""

    def apply(self, tape: Tape, x: Value, shape: Shape, weights: Sequence[Value]) -> tuple[Value, Pullback]:
        """Record both passes, with the derivative y (1 - y); see Layer.apply."""
        y = tape.op("Sigmoid", x)
        return y, lambda D: (tape.op("Mul", D, tape.op("Mul", y, tape.op("Sub", tape.constant(1), y))), ())


class Flatten(_Elementwise, frozen=True, tag="flatten"):
    """A layer that flattens its input in C order."""

    passes: ClassVar[bool] = True

    @override
    def output(self, shape: Shape) -> Shape:
        return (prod(shape),)

    def apply(self, tape: Tape, x: Value, shape: Shape, weights: Sequence[Value]) -> tuple[Value, Pullback]:
        """Record both passes; see Layer.apply."""
        return tape.reshape(x, -1, prod(shape)), lambda D: (tape.reshape(D, -1, *shape), ())
