"""Read ONNX models from any program, and return a declaration with the parameters in the declaration's order.

The graph is read from its input to its output, and each node is recognised as a layer or as a shape computation. Two
paths that meet in an Add form a residual block, which begins at the last point that both paths share.
"""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
import tomlkit
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper
from sottovoce.errors import ConfigError

from sottovoce_lab.models import forward_layers as layers
from sottovoce_lab.models.checks import lengths
from sottovoce_lab.models.declaration import Declaration, parse_declaration
from sottovoce_lab.models.graph_values import BATCH, Layer, Node, Point, Table, Value, Vector, shape_after_reshape
from sottovoce_lab.models.losses import outputs

LossName = Literal["softmax", "binary", "hinge", "squared"]

_LAYERS: dict[str, Callable[[Node], Point]] = {
    "Add": layers.read_add,
    "AveragePool": layers.pool_reader("average-pool"),
    "BatchNormalization": layers.read_batch_norm,
    "Conv": layers.read_conv,
    "Gemm": layers.read_gemm,
    "GlobalAveragePool": layers.read_global_average,
    "GroupNormalization": layers.read_group_norm,
    "InstanceNormalization": layers.read_instance_norm,
    "LayerNormalization": layers.read_layer_norm,
    "LogSoftmax": layers.read_softmax,
    "MatMul": layers.read_matmul,
    "MaxPool": layers.pool_reader("max-pool"),
    "Mul": layers.read_mul,
    "ReduceMean": layers.read_reduce_mean,
    "Relu": layers.elementwise_reader("relu"),
    "Sigmoid": layers.elementwise_reader("sigmoid"),
    "Softmax": layers.read_softmax,
    "Tanh": layers.elementwise_reader("tanh"),
}
_PASS_THROUGH = ("Identity", "Dropout", "Cast")
_RESHAPES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
_MAX_VECTOR_LENGTH = 8
_MAX_FEATURES = 2**25
_MAX_NODES = 4096


@dataclass(frozen=True, slots=True)
class Forward:
    """The result of reading a forward graph.

    Attributes:
        declaration: the declaration of an equivalent model that can be trained.
        parameters: the model's weights in the declaration's order, float64[P].
    """

    declaration: Declaration
    parameters: NDArray[np.float64]


def read_forward(model: ModelProto, file: str, name: str, loss: LossName | None = None) -> Forward:
    """Read a forward graph.

    Args:
        model: the checked model.
        file: the file name, for error messages.
        name: the model's new name.
        loss: the training loss. The default is softmax; for a single score, it is binary if the model ends in a
            sigmoid, otherwise squared.

    Raises:
        ConfigError: if an operator is not a supported layer; the message names the operator, its node and the remedy.
    """
    reader = _Reader(model.graph, file)
    chain = reader.chain()
    last = chain[-1].table["kind"] if chain else ""
    ends_in_activation = last == "softmax" or (last == "sigmoid" and loss != "squared")
    layers_to_train, width = (chain[:-1] if ends_in_activation else chain), prod(reader.output.shape)
    if any(layer.table["kind"] == "softmax" for layer in _all_layers(layers_to_train)):
        raise ConfigError(
            f"{file}: the model has a softmax before its end, where it is not supported: declare the model in TOML"
        )
    if len({id(layer) for layer in _all_layers(layers_to_train)}) < len(_all_layers(layers_to_train)):
        raise ConfigError(
            f"{file}: a layer's result is used in two places that do not meet in one Add, so this is not a residual "
            "block: declare the model in TOML"
        )
    loss = loss or ("softmax" if width > 1 else "binary" if last == "sigmoid" else "squared")
    classes_of_one_score = 1 if loss == "squared" else 2
    document: Table = {
        "name": name,
        "input": [*layers.to_image_shape(reader.start.shape)],
        "classes": width if width > 1 else classes_of_one_score,
        "loss": loss,
        "layers": [_table(layer) for layer in layers_to_train],
    }
    declaration = parse_declaration(tomlkit.dumps(document), file)
    return Forward(declaration, _flat_parameters(declaration, _all_layers(layers_to_train), file))


def with_new_head(forward: Forward, classes: int, file: str) -> Forward:
    """Return the model with another number of classes, and a last layer for them that starts at 0.

    Raises:
        ConfigError: if the last layer is not dense, or the declaration does not permit this number of classes.
    """
    document = tomllib.loads(forward.declaration.text)
    head = document["layers"][-1]
    if head["kind"] != "dense":
        raise ConfigError(
            f"{file}: the last layer is {head['kind']}, not dense: --classes can replace dense layers only"
        )
    try:
        document["classes"], head["units"] = classes, outputs(document["loss"], classes)
    except ValueError as error:
        raise ConfigError(f"{file}: {error}; set --loss softmax") from error
    declaration = parse_declaration(tomlkit.dumps(document), file)
    tensors = declaration.network.parameters
    body = sum(tensor.size for tensor in tensors[: body_tensors(declaration)])
    zeros = np.zeros(sum(tensor.size for tensor in tensors) - body)
    return Forward(declaration, np.append(forward.parameters[:body], zeros))


def body_tensors(declaration: Declaration) -> int:
    """Return the number of parameter tensors in a model's body: all but those of the last layer that has any."""
    head = next(stage for stage in reversed(declaration.network.stages) if stage.parameters)
    return len(declaration.network.parameters) - len(head.parameters)


class _Reader:
    """Computes the values in a graph, node by node."""

    def __init__(self, graph: GraphProto, file: str) -> None:
        self._file = file
        self._values: dict[str, Value] = {}
        for tensor in graph.initializer:
            self._values[tensor.name] = numpy_helper.to_array(tensor)
        if len(graph.node) > _MAX_NODES:
            raise ConfigError(f"{file}: the model has more than {_MAX_NODES} operations: use a smaller model")
        inputs = [value for value in graph.input if value.name not in self._values]
        outputs = [value.name for value in graph.output]
        output_name = outputs[0] if len(outputs) == 1 else "scores"
        if len(inputs) != 1 or inputs[0].type.tensor_type.elem_type != TensorProto.FLOAT or output_name not in outputs:
            raise ConfigError(
                f"{file}: the model must have exactly one float32 input and one output: export it with a single input "
                "and only the scores"
            )
        self._batch, *shape = lengths(inputs[0]) or [0]
        sizes = [size for size in shape if size is not None]
        if not 1 <= len(sizes) == len(shape) <= 3 or min(sizes) < 1 or prod(sizes) > _MAX_FEATURES:
            raise ConfigError(
                f"{file}: the input must have a batch dimension and one to three fixed dimensions: export the model "
                "with fixed dimensions"
            )
        self.start = Point(tuple(sizes))
        self._values[inputs[0].name] = self.start
        for proto in _nodes_leading_to(output_name, graph.node):
            self._read(proto)
        output = self._values.get(output_name)
        if not isinstance(output, Point) or output.part is not None or len(output.shape) > 1:
            raise ConfigError(
                f"{file}: the output is not one row of scores per example: flatten it, and export the model again"
            )
        self.output = output

    def chain(self) -> tuple[Layer, ...]:
        """Return the layers from the input to the output."""
        return self.output.layers_since(self.start)

    def _read(self, proto: NodeProto) -> None:
        inputs = [self._values[name] if name else None for name in proto.input]
        node = Node(proto, inputs, self._file)
        if any(isinstance(value, Point) for value in inputs):
            value: Value = self._read_point_node(node)
        else:
            value = self._read_constant_node(node)
        self._values[proto.output[0]] = value

    def _read_point_node(self, node: Node) -> Value:
        kind, first = node.proto.op_type, node.inputs[0]
        if kind in _PASS_THROUGH:
            return node.point()
        if kind in _RESHAPES and isinstance(first, Point):
            return self._reshape(node, first)
        if kind == "Shape" and isinstance(first, Point):
            shape: Vector = (BATCH, *first.shape)
            return shape[node.attributes.get("start", 0) : node.attributes.get("end")]
        if kind not in _LAYERS:
            supported = ", ".join(name for name in _LAYERS if name != "BatchNormalization")
            raise node.refusal("the operator is not a known layer", f"replace it with one of {supported}")
        return _LAYERS[kind](node)

    def _reshape(self, node: Node, point: Point) -> Point:
        target = self._target(node, point)
        shape = shape_after_reshape(node, point, target, self._batch)
        if (norm := layers.read_group_reshape(node, point, shape)) is not None:
            return norm
        if point.part is not None:
            raise node.refusal("the operator is used in an unsupported way")
        if shape == point.shape:
            return point
        if point is self.start:
            self.start = Point(shape, previous=point)
            return self.start
        if len(shape) == 1:
            return Point(shape, previous=point, layer=Layer({"kind": "flatten"}))
        raise node.refusal(
            "the operator reshapes a tensor inside the model", "reshape only the input, and use only flatten elsewhere"
        )

    def _target(self, node: Node, point: Point) -> Vector:
        kind, rank = node.proto.op_type, len(point.shape) + 1
        dimensions: list[int | None] = [BATCH, *point.shape]
        if kind == "Flatten":
            if node.attributes.get("axis", 1) % rank != 1:
                raise node.refusal("the operator mixes examples")
            return (BATCH, -1)
        if kind == "Reshape":
            return _vector(node, 1)
        axes = node.numbers("axes", 1)
        if kind == "Squeeze":
            removed = [index for index in range(1, rank) if dimensions[index] == 1] if axes is None else axes
            removed = [axis % rank for axis in removed]
            if any(dimensions[axis] != 1 for axis in removed):
                raise node.refusal("the operator removes a dimension whose size is not 1")
            remaining = [length for index, length in enumerate(dimensions) if index not in removed]
            return tuple(remaining) if len(remaining) > 1 else (BATCH, 1)
        for axis in sorted(axis % (rank + len(axes or ())) for axis in axes or ()):
            dimensions.insert(axis, 1)
        return tuple(dimensions)

    def _read_constant_node(self, node: Node) -> Value:
        """Evaluate a node that rearranges constants or computes a shape."""
        kind, values = node.proto.op_type, node.inputs
        if kind == "Constant":
            return _constant(node)
        if any(isinstance(value, tuple) for value in values):
            return self._read_vector_node(node)
        arrays = [value for value in values if isinstance(value, np.ndarray)]
        if kind in ("Identity", "Cast") and arrays:
            return arrays[0]
        if kind == "Transpose" and arrays:
            return np.transpose(arrays[0], node.attributes.get("perm"))
        if kind in ("Reshape", "Unsqueeze", "Squeeze") and arrays:
            return _rearrange(node, arrays[0])
        if kind in ("Concat", "Gather"):
            return self._read_vector_node(node)
        raise node.refusal("the operator computes only with constants", "enable constant folding in the exporter")

    def _read_vector_node(self, node: Node) -> Value:
        kind = node.proto.op_type
        if kind in ("Identity", "Cast", "Unsqueeze", "Squeeze"):
            return _vector(node, 0)
        if kind == "Concat":
            values = [length for index in range(len(node.inputs)) for length in _vector(node, index)]
            return tuple(values[: _MAX_VECTOR_LENGTH + 1])
        if kind == "Gather":
            vector, indices = _vector(node, 0), _vector(node, 1)
            if all(index is not None and -len(vector) <= index < len(vector) for index in indices):
                return tuple(vector[index] for index in indices if index is not None)
        if kind == "Slice":
            vector, starts, ends = (_vector(node, index) for index in range(3))
            if len(starts) == len(ends) == 1 and (len(node.inputs) < 5 or _vector(node, 4) == (1,)):
                return vector[starts[0] : ends[0]]
        raise node.refusal("the operator computes a shape in an unsupported way", "flatten with torch.nn.Flatten()")


def _nodes_leading_to(output: str, nodes: Sequence[NodeProto]) -> list[NodeProto]:
    """Return the nodes that an output depends on, in order."""
    needed, leading = {output}, []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            needed.update(node.input)
            leading.append(node)
    return leading[::-1]


def _constant(node: Node) -> NDArray[Any]:
    for name in ("value_float", "value_floats", "value_int", "value_ints"):
        if name in node.attributes:
            kind = np.float32 if "float" in name else np.int64
            return np.asarray(node.attributes[name], dtype=kind)
    if isinstance(tensor := node.attributes.get("value"), TensorProto):
        return numpy_helper.to_array(tensor)
    raise node.refusal("the operator contains a constant of an unsupported type")


def _rearrange(node: Node, array: NDArray[Any]) -> NDArray[Any]:
    """Return a constant in its new shape, with unchanged values."""
    kind = node.proto.op_type
    try:
        if kind == "Reshape":
            target = [length for length in _vector(node, 1) if length is not None]
            return array.reshape([array.shape[index] if length == 0 else length for index, length in enumerate(target)])
        axes = node.numbers("axes", 1)
        if kind == "Unsqueeze":
            return np.expand_dims(array, tuple(axes or ()))
        return np.squeeze(array, None if axes is None else tuple(axes))
    except (ValueError, IndexError) as error:
        raise node.refusal("the operator cannot be applied to its constant", "export the model again") from error


def _vector(node: Node, index: int) -> Vector:
    """Return an input that must be a short vector of integers, some of which may be unknown."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if isinstance(value, np.ndarray) and value.dtype.kind == "i" and value.size <= _MAX_VECTOR_LENGTH:
        return tuple(int(number) for number in value.ravel())
    if isinstance(value, tuple):
        return value
    raise node.refusal("the operator computes a shape in an unsupported way", "flatten with torch.nn.Flatten()")


def _all_layers(chain: Sequence[Layer]) -> list[Layer]:
    """Return all layers in order, where each block is followed by the layers in its body and then in its shortcut."""
    layers = []
    for layer in chain:
        layers += [layer, *_all_layers(layer.body), *_all_layers(layer.shortcut)]
    return layers


def _table(layer: Layer) -> Table:
    table = {**layer.table}
    for key, inner_layers in (("layers", layer.body), ("shortcut", layer.shortcut)):
        if inner_layers:
            table[key] = [_table(inner) for inner in inner_layers]
    return table


def _flat_parameters(declaration: Declaration, layers: Sequence[Layer], file: str) -> NDArray[np.float64]:
    """Concatenate the tensors into one vector in the declaration's order."""
    tensors = [tensor for layer in layers for tensor in layer.tensors]
    expected = [tensor.shape for tensor in declaration.network.parameters]
    if [tensor.shape for tensor in tensors] != expected:
        raise ConfigError(f"{file}: the model's weights do not fit its layers: export it again")
    return np.concatenate([tensor.ravel().astype(np.float64) for tensor in tensors])
