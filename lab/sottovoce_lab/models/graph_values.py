"""Values that occur while a forward graph is read: constants, shapes and layer outputs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, helper
from sottovoce.errors import ConfigError

BATCH = None
"""Placeholder for the number of examples in a shape."""

Table = dict[str, Any]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer found in a graph.

    Attributes:
        table: the layer's table in a declaration, which for a residual block omits the inner layers.
        tensors: the layer's parameters, in order.
        body: the layers in a residual block's body.
        shortcut: the layers in a residual block's shortcut.
    """

    table: Table
    tensors: tuple[NDArray[np.float32], ...] = ()
    body: "tuple[Layer, ...]" = ()
    shortcut: "tuple[Layer, ...]" = ()

    @property
    def depth(self) -> int:
        """The nesting depth of residual blocks; 0 for any other layer."""
        return 1 + max(layer.depth for layer in self.body + self.shortcut) if self.body else 0


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A tensor that depends on the examples.

    Attributes:
        shape: the shape for one example.
        previous: the previous layer's output; None for the input.
        layer: the layer that outputs the tensor; None for the input, or if only the shape changed.
        part: inside a group norm, the number of groups and whether they are already normalised; elsewhere None.
    """

    shape: Shape
    previous: "Point | None" = None
    layer: Layer | None = None
    part: tuple[int, bool] | None = None

    def ancestors(self) -> "Iterator[Point]":
        """Yield this point and all earlier points up to the input, except those inside residual blocks."""
        point: Point | None = self
        while point is not None:
            yield point
            point = point.previous

    def layers_since(self, start: "Point") -> tuple[Layer, ...]:
        """Return the layers between an earlier point and this point."""
        layers: list[Layer] = []
        for point in self.ancestors():
            if point is start:
                break
            layers += [] if point.layer is None else [point.layer]
        return tuple(layers[::-1])


Vector = tuple[int | None, ...]
"""A shape, or part of a shape, computed by the graph; BATCH represents the number of examples."""

Value = Point | Vector | NDArray[Any]


@dataclass(slots=True)
class Node:
    """A node with its inputs.

    Attributes:
        proto: the node as stored in the file.
        inputs: the input values; None for an omitted input.
        file: the file name, for error messages.
    """

    proto: NodeProto
    inputs: list[Value | None]
    file: str
    attributes: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        """Convert the attributes to Python values."""
        self.attributes = {entry.name: helper.get_attribute_value(entry) for entry in self.proto.attribute}

    def refusal(
        self, reason: str, remedy: str = "declare the model in TOML, or change the layer and export again"
    ) -> ConfigError:
        """Return an error that names this node, the reason and the remedy."""
        name = self.proto.name or ", ".join(self.proto.output)
        return ConfigError(f"{self.file}: operator {self.proto.op_type} of node {name[:80]!r}: {reason}: {remedy}")

    def point(self, index: int = 0) -> Point:
        """Return an input that depends on the examples and is not inside a group norm.

        Raises:
            ConfigError: if the input is of a different kind.
        """
        value = self.inputs[index] if index < len(self.inputs) else None
        if not isinstance(value, Point) or value.part is not None:
            raise self.refusal("the operator is used in an unsupported way")
        return value

    def constant(self, index: int) -> NDArray[Any] | None:
        """Return a constant input; None for an omitted input.

        Raises:
            ConfigError: if the input is not constant.
        """
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None or isinstance(value, np.ndarray):
            return value
        raise self.refusal("the operator's weights are computed from the example")

    def numbers(self, name: str, index: int) -> list[int] | None:
        """Return integers that new versions of an operator receive as an input and old versions as an attribute."""
        if name in self.attributes:
            return [int(number) for number in self.attributes[name]]
        value = self.constant(index)
        return None if value is None else [int(number) for number in value.ravel()]


def shape_after_reshape(node: Node, point: Point, target: Vector, batch: int | None) -> Shape:
    """Return one example's shape after a reshape.

    Args:
        node: the node, for error messages.
        point: the tensor to reshape.
        target: the new shape, in which 0 keeps a dimension's size and a single -1 means that the size is inferred.
        batch: the fixed number of examples in the file; None if any number is allowed.

    Raises:
        ConfigError: if the reshape mixes examples or might mix them.
    """
    total, zero_keeps = prod(point.shape), not node.attributes.get("allowzero", 0)
    if not target or len(target) > 8:
        raise node.refusal("the target shape does not have 1 to 8 dimensions")
    first, dimensions = target[0], [*target[1:]]
    for index, length in enumerate(dimensions):
        if length == 0 and zero_keeps and index < len(point.shape):
            dimensions[index] = point.shape[index]
        if length is BATCH:
            raise node.refusal("the operator mixes examples")
    shape = [length for length in dimensions if length is not None]
    product = prod(length for length in shape if length != -1)
    if shape.count(-1) == 1 and product > 0 and total % product == 0:
        shape[shape.index(-1)] = total // product
    keeps_batch = first is BATCH or first == -1 or (first == 0 and zero_keeps) or (batch is not None and first == batch)
    if not keeps_batch or prod(shape) != total or min(shape, default=1) < 1:
        raise node.refusal(
            "the operator fixes the number of examples, or mixes them",
            "export the model with a dynamic batch dimension, and flatten with Flatten(1)",
        )
    return tuple(shape)
