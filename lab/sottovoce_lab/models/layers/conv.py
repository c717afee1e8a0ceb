"""Two-dimensional convolution layers."""

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from sottovoce.kernels.onnx.facts import ParameterFacts

from sottovoce_lab.models.clipping import Contribution, ExplicitGradient, FactoredGradient, TransposedGradient
from sottovoce_lab.models.layers.layer import Count, LayerDeclaration, Pullback, Shape, constant, uniform_weight
from sottovoce_lab.models.layers.windows import Border, Pair, Windows, windows
from sottovoce_lab.models.tape import Tape, Value

_MIN_ROWS = 12
"""Approximate row count below which a matrix product is slow, because it processes this many rows at once."""


class Conv2d(LayerDeclaration, frozen=True, tag="conv2d"):
    """Two-dimensional convolution: y_m = Σ_c w_mc * x_c + b_m, w[filters, channels, height, width].

    Attributes:
        filters: the number of output channels.
        kernel: the filter size, as one number or as height and width.
        stride: the distance between consecutive positions.
        padding: the number of zeros on each side.
        bias: whether the layer has a bias b.
    """

    filters: Count
    kernel: Pair
    stride: Pair = 1
    padding: Border = 0
    bias: bool = True

    name: ClassVar[str] = "conv"
    passes: ClassVar[bool] = False

    def output(self, shape: Shape) -> Shape:
        """Return the output shape; see Layer.output."""
        return (self.filters, *self._windows(shape).positions)

    def parameters(self, shape: Shape, *, rectified: bool) -> tuple[ParameterFacts, ...]:
        """Return the weight and the bias, if any; see Layer.parameters."""
        layout = self._windows(shape)
        area = prod(layout.kernel)
        weight = uniform_weight(
            (self.filters, layout.channels, *layout.kernel),
            layout.channels * area,
            self.filters * area,
            rectified=rectified,
        )
        return (weight, constant("bias", (self.filters,), 0)) if self.bias else (weight,)

    def apply(self, tape: Tape, x: Value, shape: Shape, weights: Sequence[Value]) -> tuple[Value, Pullback]:
        """Record both passes; see Layer.apply. Gradients: Σ_l D_l ⊗ A_l by w (A_l: input at l), Σ_l D_l by b."""
        layout = self._windows(shape)

        def pull_back(D: Value) -> tuple[Value, Sequence[Contribution]]:
            gradients = [
                self._weight_gradient(tape, tape.reshape(D, -1, self.filters, prod(layout.positions)), x, layout)
            ]
            if self.bias:
                gradients.append(
                    ExplicitGradient(tape.op("ReduceSum", D, tape.integers(2, 3), keepdims=0), self.filters)
                )
            return layout.spread(tape, D, weights[0]), gradients

        return tape.op("Conv", x, *weights, **layout.attributes), pull_back

    def _weight_gradient(self, tape: Tape, D: Value, x: Value, layout: Windows) -> Contribution:
        height, width = layout.kernel
        M, K, L = self.filters, layout.channels * height * width, prod(layout.positions)
        rows = layout.rows(tape, x)
        if FactoredGradient.is_cheaper(M, K, L):
            return FactoredGradient(D, _side_by_side(tape, rows, layout.channels, width * L, (K, L)), (M, K, L))
        if layout.channels * width < _MIN_ROWS:
            rows = [_side_by_side(tape, rows, layout.channels, width * L, (K, L))]
        transposed, size = tape.op("Transpose", D, perm=[0, 2, 1]), M * K // len(rows)
        products = (tape.reshape(tape.op("MatMul", row, transposed), -1, size) for row in rows)
        parts = tuple(ExplicitGradient(product, size) for product in products)
        return TransposedGradient(parts, groups=layout.channels, filters=M, work=2 * K * L // len(rows))

    def _windows(self, shape: Shape) -> Windows:
        return windows("conv2d", shape, self.kernel, self.stride, self.padding)


def _side_by_side(tape: Tape, rows: list[Value], count: int, inner: int, shape: Shape) -> Value:
    """Join the values for the kernel rows in the order of the kernel tensor, count × kernel height × inner.

    Args:
        tape: the tape on which to record operations.
        rows: one tensor real[B, count × inner] per kernel row.
        count: the total size of the axes before the kernel height.
        inner: the total size of the axes after the kernel height.
        shape: the output shape for one example.
    """
    parts = [tape.reshape(row, -1, count, 1, inner) for row in rows]
    return tape.reshape(tape.op("Concat", *parts, axis=2), -1, *shape)
