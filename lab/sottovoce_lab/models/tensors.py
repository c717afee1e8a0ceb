"""Check that a model file's tensors are stored in the file itself, have their declared size and are plain numbers."""

from collections.abc import Iterator
from math import prod
from pathlib import PurePosixPath, PureWindowsPath

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper
from sottovoce.errors import ConfigError

MAX_NUMBERS = 2**25
"""Maximum number of elements in all tensors together, and a model's maximum number of parameters."""

_MAX_TENSORS = 2**14
_MAX_DIMENSIONS = 8
_KINDS: dict[int, tuple[str, int]] = {  # the field for single numbers, and the bytes per number in raw data
    TensorProto.FLOAT: ("float_data", 4),
    TensorProto.DOUBLE: ("double_data", 8),
    TensorProto.INT32: ("int32_data", 4),
    TensorProto.INT64: ("int64_data", 8),
    TensorProto.BOOL: ("int32_data", 1),
}


def check_tensors(model: ModelProto, file: str) -> None:
    """Reject tensors stored in other files or different from their declaration, without allocating the declared size.

    Args:
        model: the parsed model, on which no other checks have run yet.
        file: the file name, for error messages.

    Raises:
        ConfigError: if a tensor is rejected; the message names the tensor and the remedy.
    """
    tensors = [*_tensors(model)]
    for tensor in tensors:
        if tensor.external_data or tensor.data_location == TensorProto.EXTERNAL:
            raise ConfigError(f"{file}: {_describe_external(tensor)}")
    for sparse in _sparse(model):
        raise ConfigError(f"{file}: tensor {_quoted_name(sparse)} is sparse: store it as a dense tensor")
    if len(tensors) > _MAX_TENSORS:
        raise ConfigError(f"{file}: the model has {len(tensors)} tensors; at most {_MAX_TENSORS} are supported")
    if sum(_check_tensor(tensor, file) for tensor in tensors) > MAX_NUMBERS:
        raise ConfigError(f"{file}: the model has more than {MAX_NUMBERS} numbers in its tensors: use a smaller model")


def check_finite(model: ModelProto, file: str) -> None:
    """Reject infinite and NaN weights. The tensors must already have passed `check_tensors`.

    Raises:
        ConfigError: if a weight is not finite; the message names the tensor.
    """
    for tensor in _tensors(model):
        if not np.isfinite(numpy_helper.to_array(tensor)).all():
            raise ConfigError(
                f"{file}: tensor {_quoted_name(tensor)} contains a number that is not finite: train the model again"
            )


def _check_tensor(tensor: TensorProto, file: str) -> int:
    """Check a tensor, and return its number of elements, computed from its dimensions."""
    if tensor.data_type not in _KINDS:
        kind = TensorProto.DataType.Name(tensor.data_type) if tensor.data_type in range(64) else "unknown"
        raise ConfigError(
            f"{file}: tensor {_quoted_name(tensor)} has type {kind}; only float32, float64, int32, int64 and bool are "
            "supported: export the model as float32"
        )
    if len(tensor.dims) > _MAX_DIMENSIONS or any(length < 0 for length in tensor.dims) or tensor.HasField("segment"):
        raise ConfigError(f"{file}: tensor {_quoted_name(tensor)} has impossible dimensions: export the model again")
    field, size = _KINDS[tensor.data_type]
    declared = prod(tensor.dims)
    raw = tensor.HasField("raw_data")
    if (len(tensor.raw_data) != declared * size) if raw else (len(getattr(tensor, field)) != declared):
        raise ConfigError(
            f"{file}: tensor {_quoted_name(tensor)} declares {declared} numbers, but the file contains a different "
            "number: export the model again"
        )
    if tensor.data_type == TensorProto.BOOL and max(tensor.raw_data, default=0) > 1:
        raise ConfigError(
            f"{file}: tensor {_quoted_name(tensor)} has a value that is neither true nor false: export the model again"
        )
    return declared


def _describe_external(tensor: TensorProto) -> str:
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    climbs = ".." in PurePosixPath(location).parts or ".." in PureWindowsPath(location).parts
    if climbs or PurePosixPath(location).is_absolute() or PureWindowsPath(location).drive:
        return (
            f"tensor {_quoted_name(tensor)} refers to the file {location[:80]!r}, outside the model's own directory "
            "(path traversal): do not trust this file"
        )
    return (
        f"tensor {_quoted_name(tensor)} is in another file (external data): store the model in one file, with "
        "onnx.save_model(model, FILE, save_as_external_data=False)"
    )


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    for part in _bodies(model):
        if isinstance(part, GraphProto):
            yield from part.initializer
            for sparse in part.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        for attribute in _attributes(part):
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (part for part in (sparse.values, sparse.indices) if part.ByteSize())


def _sparse(model: ModelProto) -> Iterator[TensorProto]:
    """Yield each sparse tensor's values."""
    for part in _bodies(model):
        if isinstance(part, GraphProto):
            yield from (sparse.values for sparse in part.sparse_initializer)
        for attribute in _attributes(part):
            if attribute.HasField("sparse_tensor"):
                yield attribute.sparse_tensor.values
            yield from (sparse.values for sparse in attribute.sparse_tensors)


def _bodies(model: ModelProto) -> Iterator[GraphProto | FunctionProto]:
    """Yield the graph, its nested graphs, the training graphs and the functions."""
    pending: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    for training in model.training_info:
        pending += [training.initialization, training.algorithm]
    while pending:
        yield (part := pending.pop())
        for attribute in _attributes(part):
            pending += [attribute.g] if attribute.HasField("g") else []
            pending += attribute.graphs


def _attributes(part: GraphProto | FunctionProto) -> Iterator[AttributeProto]:
    nodes: list[NodeProto] = [*part.node]
    for node in nodes:
        yield from node.attribute


def _quoted_name(tensor: TensorProto) -> str:
    return repr(tensor.name[:80]) if tensor.name else "without a name"
