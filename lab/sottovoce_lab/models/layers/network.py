"""Chains of layers and residual blocks, with their shapes and parameter names in a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sottovoce.kernels.onnx.facts import ParameterFacts

from sottovoce_lab.models.clipping import Contribution
from sottovoce_lab.models.layers.layer import Layer, Pullback, Shape
from sottovoce_lab.models.tape import Tape, Value

Weights = Mapping[str, Value]
"""All parameter tensors in a model, by name."""


@dataclass(frozen=True, slots=True)
class PlacedLayer:
    """A layer at a position in a model.

    Attributes:
        layer: the declared layer.
        input: the layer's input shape.
        output: the layer's output shape.
        parameters: the layer's parameter tensors, with their full names.
    """

    layer: Layer
    input: Shape
    output: Shape
    parameters: tuple[ParameterFacts, ...]

    def apply(self, tape: Tape, x: Value, weights: Weights) -> tuple[Value, Pullback]:
        """Record both passes; see Layer.apply."""
        return self.layer.apply(tape, x, self.input, [weights[parameter.name] for parameter in self.parameters])


@dataclass(frozen=True, slots=True)
class Chain:
    """A sequence of layers; each processes the previous one's output. An empty chain is the identity.

    Attributes:
        stages: the layers and blocks, in order.
        input: the first stage's input shape.
    """

    stages: tuple["PlacedLayer | Residual", ...]
    input: Shape

    @property
    def output(self) -> Shape:
        """The last stage's output shape."""
        return self.stages[-1].output if self.stages else self.input

    @property
    def parameters(self) -> tuple[ParameterFacts, ...]:
        """The parameters of all stages, in order."""
        return tuple(parameter for stage in self.stages for parameter in stage.parameters)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of all intermediate results."""
        inner = (shape for stage in self.stages if isinstance(stage, Residual) for shape in stage.shapes)
        return (*(stage.output for stage in self.stages), *inner)

    def apply(self, tape: Tape, x: Value, weights: Weights) -> tuple[Value, Pullback]:
        """Record both passes, applying the chain rule from the last stage to the first; see Layer.apply."""
        pullbacks = []
        for stage in self.stages:
            x, pullback = stage.apply(tape, x, weights)
            pullbacks.append(pullback)

        def pull_back(D: Value) -> tuple[Value, Sequence[Contribution]]:
            contributions: list[Contribution] = []
            for pullback in reversed(pullbacks):
                D, gradients = pullback(D)
                contributions[:0] = gradients
            return D, contributions

        return x, pull_back


@dataclass(frozen=True, slots=True)
class Residual:
    """A residual block: y = body(x) + shortcut(x) (He et al. 2016).

    Attributes:
        body: the chain of the body's layers.
        shortcut: a chain with the same input and output shapes as the body.
    """

    body: Chain
    shortcut: Chain

    @property
    def output(self) -> Shape:
        """The block's output shape, the same as its body's."""
        return self.body.output

    @property
    def parameters(self) -> tuple[ParameterFacts, ...]:
        """The body's parameters, then the shortcut's."""
        return self.body.parameters + self.shortcut.parameters

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of all intermediate results."""
        return self.body.shapes + self.shortcut.shapes

    def apply(self, tape: Tape, x: Value, weights: Weights) -> tuple[Value, Pullback]:
        """Record both passes; see Layer.apply."""
        y, pull_back_body = self.body.apply(tape, x, weights)
        shortcut_output, pull_back_shortcut = self.shortcut.apply(tape, x, weights)

        def pull_back(D: Value) -> tuple[Value, Sequence[Contribution]]:
            body_gradient, body_contributions = pull_back_body(D)
            shortcut_gradient, shortcut_contributions = pull_back_shortcut(D)
            return tape.op("Add", body_gradient, shortcut_gradient), (*body_contributions, *shortcut_contributions)

        return tape.op("Add", y, shortcut_output), pull_back
