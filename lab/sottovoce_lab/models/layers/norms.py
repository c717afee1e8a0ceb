"""Norms within one example, over channel groups (Wu & He 2018) or the whole example (Ba, Kiros & Hinton 2016).

Batch norm is not supported, because it mixes the examples in a batch, so there is no per-example gradient to clip.
"""

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from sottovoce.kernels.onnx.facts import ParameterFacts
from typing_extensions import override

from sottovoce_lab.models.clipping import Contribution, ExplicitGradient
from sottovoce_lab.models.layers.layer import Count, LayerDeclaration, Pullback, Shape, constant
from sottovoce_lab.models.tape import Tape, Value

_EPSILON = 1e-5


class _Norm(LayerDeclaration, frozen=True):
    """A norm layer: y = γ (x - mean) / √(variance + ε) + β, with each group's mean and variance.

    The parameter γ is named `weight`, and β is named `bias`.
    """

    name: ClassVar[str] = "norm"
    passes: ClassVar[bool] = True

    def output(self, shape: Shape) -> Shape:
        """Return the output shape, the same as the input shape; see Layer.output."""
        return shape

    def parameters(self, shape: Shape, *, rectified: bool) -> tuple[ParameterFacts, ...]:
        """Return γ and β; see Layer.parameters."""
        scaled, _ = self._scale_shape(shape)
        return constant("weight", scaled, 1), constant("bias", scaled, 0)

    def apply(self, tape: Tape, x: Value, shape: Shape, weights: Sequence[Value]) -> tuple[Value, Pullback]:
        """Record both passes; see Layer.apply.

        Let u be x normalised to mean 0 and variance 1. The gradient with respect to γ is Du, that with respect to β is
        D, and that with respect to u is γD. The gradient with respect to x is the gradient with respect to u, without
        its mean and its component along u, multiplied by 1 / √(variance + ε).
        """
        scaled, groups = self._scale_shape(shape)
        channels, size = prod(scaled), prod(shape)

        def group(value: Value) -> Value:
            return tape.reshape(value, -1, groups, size // groups)

        def ungroup(value: Value) -> Value:
            return tape.reshape(value, -1, channels, size // channels)

        def mean(value: Value) -> Value:
            return tape.op("ReduceMean", value, tape.integers(2), keepdims=1)

        centred = tape.op("Sub", group(x), mean(group(x)))
        variance = mean(tape.op("Mul", centred, centred))
        scale = tape.op("Reciprocal", tape.op("Sqrt", tape.op("Add", variance, tape.constant(_EPSILON))))
        u = tape.op("Mul", centred, scale)
        gamma, beta = (tape.reshape(weight, channels, 1) for weight in weights)
        y = tape.op("Add", tape.op("Mul", ungroup(u), gamma), beta)

        def pull_back(D: Value) -> tuple[Value, Sequence[Contribution]]:
            D = ungroup(D)
            gradients = [
                ExplicitGradient(tape.op("ReduceSum", part, tape.integers(2), keepdims=0), channels)
                for part in (tape.op("Mul", D, ungroup(u)), D)
            ]
            u_gradient = group(tape.op("Mul", D, gamma))
            parallel = tape.op("Mul", u, mean(tape.op("Mul", u_gradient, u)))
            projected = tape.op("Sub", tape.op("Sub", u_gradient, mean(u_gradient)), parallel)
            return tape.reshape(tape.op("Mul", projected, scale), -1, *shape), gradients

        return tape.reshape(y, -1, *shape), pull_back

    def _scale_shape(self, shape: Shape) -> tuple[Shape, int]:
        """Return the shape of γ and β, and the number of groups, for an input shape."""
        raise NotImplementedError


class GroupNorm(_Norm, frozen=True, tag="group-norm"):
    """A norm over channel groups, with one γ and one β per channel.

    Attributes:
        groups: the number of groups, which all have the same number of channels.
    """

    groups: Count

    @override
    def output(self, shape: Shape) -> Shape:
        if shape[0] % self.groups:
            raise ValueError(f"groups: {self.groups} does not divide the {shape[0]} channels")
        return shape

    def _scale_shape(self, shape: Shape) -> tuple[Shape, int]:
        return shape[:1], self.groups


class LayerNorm(_Norm, frozen=True, tag="layer-norm"):
    """A norm over the whole example as one group, with one γ and one β per element."""

    def _scale_shape(self, shape: Shape) -> tuple[Shape, int]:
        return shape, 1
