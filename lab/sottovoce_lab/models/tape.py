"""A builder for ONNX graphs that records one operation at a time."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from onnx import ModelProto, NodeProto, ValueInfoProto, checker, helper, numpy_helper

OPSET = 21
IR_VERSION = 10
"""File format version, supported by every ONNX Runtime version that devices have used since 2024."""

Value = str
"""The name of a tensor in the graph."""


class Tape:
    """A graph builder that records operations in call order, and records equal operations only once.

    Equal sequences of calls produce identical bytes. Nodes that do not contribute to an output are omitted.

    Args:
        real: the dtype of scores and per-example gradients: float32 in all files, or float64 for comparing gradients
            with finite differences.
    """

    def __init__(self, real: DTypeLike = np.float32) -> None:
        self.real = np.dtype(real)
        self._nodes: list[NodeProto] = []
        self._results: dict[object, tuple[Value, ...]] = {}
        self._constants: dict[Value, NDArray[Any]] = {}
        self._inputs: list[ValueInfoProto] = []

    def input(self, name: Value, dtype: DTypeLike, shape: Iterable[int | str]) -> Value:
        """Declare a graph input, in which a dimension given as a name may have any size."""
        self._inputs.append(_value_info(name, dtype, shape))
        return name

    def constant(self, value: Any, dtype: DTypeLike | None = None, name: Value | None = None) -> Value:
        """Add a constant tensor.

        Args:
            value: a number, an array or a sequence of numbers.
            dtype: the tensor's dtype; `real` by default.
            name: the tensor's name; equal constants without a name are shared.
        """
        array = np.asarray(value, dtype=self.real if dtype is None else dtype)
        if name is None:
            key = (array.dtype.str, array.shape, array.tobytes())
            name = self._results.setdefault(key, (f"constant{len(self._constants)}",))[0]
        self._constants[name] = array
        return name

    def integers(self, *values: int) -> Value:
        """Add a constant int64 vector, and return its name."""
        return self.constant(values, np.int64)

    def op(self, kind: str, *inputs: Value, **attributes: Any) -> Value:
        """Add an operation, and return its first output. See `ops`."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, count: int, *inputs: Value, **attributes: Any) -> tuple[Value, ...]:
        """Add an operation, and return its outputs.

        Args:
            kind: the name of an operator in the default domain.
            count: the number of outputs.
            inputs: the inputs in order; an empty name omits an optional input.
            attributes: the operator's attributes.
        """
        key = (kind, count, inputs, repr(sorted(attributes.items())))
        if key not in self._results:
            index = len(self._nodes)
            outputs = [f"{kind}{index}" + (f".{number}" if number else "") for number in range(count)]
            self._nodes.append(helper.make_node(kind, inputs, outputs, **attributes))
            self._results[key] = tuple(outputs)
        return self._results[key]

    def cast(self, value: Value, dtype: DTypeLike) -> Value:
        """Cast a tensor to another dtype."""
        return self.op("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def reshape(self, value: Value, *shape: int) -> Value:
        """Reshape a tensor in C order; 0 keeps a dimension's size, and -1 means that the size is inferred."""
        return self.op("Reshape", value, self.integers(*shape))

    def model(self, outputs: Iterable[tuple[Value, Value, DTypeLike, Iterable[int | str]]]) -> ModelProto:
        """Build and check the model for the recorded graph.

        Args:
            outputs: the name in the file, the tensor, the dtype and the shape of each output.
        """
        declared_inputs = []
        for name, value, dtype, shape in outputs:
            self._nodes.append(helper.make_node("Identity", [value], [name]))
            declared_inputs.append(_value_info(name, dtype, shape))
        nodes, required_values = self._needed_nodes({output.name for output in declared_inputs})
        graph = helper.make_graph(
            nodes,
            "sottovoce",
            self._inputs,
            declared_inputs,
            [
                numpy_helper.from_array(value, name)
                for name, value in self._constants.items()
                if name in required_values
            ],
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="sottovoce",
        )
        checker.check_model(model, full_check=True)
        return model

    def _needed_nodes(self, required_values: set[Value]) -> tuple[list[NodeProto], set[Value]]:
        """Return the operations that these tensors require, without unused trailing outputs, and all their tensors."""
        needed_nodes = []
        for node in reversed(self._nodes):
            if required_values.isdisjoint(node.output):
                continue
            while node.output[-1] not in required_values:
                del node.output[-1]
            required_values.update(node.input)
            needed_nodes.append(node)
        return needed_nodes[::-1], required_values


def _value_info(name: Value, dtype: DTypeLike, shape: Iterable[int | str]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape))
