"""Dense layers."""

from collections.abc import Sequence
from typing import ClassVar

from sottovoce.kernels.onnx.facts import ParameterFacts

from sottovoce_lab.models.clipping import Contribution, ExplicitGradient, OuterProductGradient
from sottovoce_lab.models.layers.layer import (
    Count,
    LayerDeclaration,
    Pullback,
    Shape,
    constant,
    format_shape,
    uniform_weight,
)
from sottovoce_lab.models.tape import Tape, Value


class Dense(LayerDeclaration, frozen=True, tag="dense"):
    """A dense layer: y = Wx + b, W[units, inputs].

    Attributes:
        units: the number of units, the size of y.
        bias: whether the layer has a bias b.
    """

    units: Count
    bias: bool = True

    name: ClassVar[str] = "dense"
    passes: ClassVar[bool] = False

    def output(self, shape: Shape) -> Shape:
        """Return the output shape; see Layer.output."""
        if len(shape) != 1:
            raise ValueError(
                f"kind: dense requires a flat input, but its input is {format_shape(shape)}: put flatten before it"
            )
        return (self.units,)

    def parameters(self, shape: Shape, *, rectified: bool) -> tuple[ParameterFacts, ...]:
        """Return the weight and the bias, if any; see Layer.parameters."""
        weight = uniform_weight((self.units, *shape), shape[0], self.units, rectified=rectified)
        return (weight, constant("bias", (self.units,), 0)) if self.bias else (weight,)

    def apply(self, tape: Tape, x: Value, shape: Shape, weights: Sequence[Value]) -> tuple[Value, Pullback]:
        """Record both passes, with the gradients D ⊗ x by W, D by b and W'D by x; see Layer.apply."""

        def pull_back(D: Value) -> tuple[Value, Sequence[Contribution]]:
            weight_gradient = OuterProductGradient(D, x, (self.units, shape[0]))
            gradients = (weight_gradient, ExplicitGradient(D, self.units)) if self.bias else (weight_gradient,)
            return tape.op("MatMul", D, weights[0]), gradients

        return tape.op("Gemm", x, *weights, transB=1), pull_back
