"""Check a model file from any source before ONNX Runtime loads it.

The file's parts are counted before it is parsed and inspected. A model must not refer to other files, declare more
numbers than the file contains, use any operators except ONNX's, or contain its own functions. Finally, the `onnx`
package checks the model.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, ValueInfoProto, checker, defs, shape_inference
from sottovoce.errors import ConfigError
from sottovoce.kernels.onnx.facts import KEY, GraphFacts, read_facts

from sottovoce_lab.models.scan import read
from sottovoce_lab.models.tape import OPSET
from sottovoce_lab.models.tensors import check_finite, check_tensors

MAX_GRAPH_BYTES = 2**26
"""Maximum size, in bytes, of a file made by `sottovoce model build`, which contains no parameters."""

MAX_FORWARD_BYTES = 2**28
"""Maximum size, in bytes, of a file with weights; enough for the maximum number of weights in float64."""

OLDEST_OPSET = 13

_OLDEST_IR = 4
_MAX_NODES = 2**15
_MAX_TENSOR_NUMBERS = 2**28
_MAX_ATTRIBUTE_VALUES = 2**12
_DOMAINS = ("", "ai.onnx")
_CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"}
)
_CONTRACT = {  # dtype and number of dimensions of a graph's inputs and outputs
    "parameters": (TensorProto.FLOAT, 1),
    "features": (TensorProto.FLOAT, 2),
    "mask": (TensorProto.BOOL, 1),
    "clip": (TensorProto.DOUBLE, 0),
    "loss": (TensorProto.DOUBLE, 0),
    "gradient_sum": (TensorProto.DOUBLE, 1),
}
_INPUTS = ("parameters", "features", "labels", "mask", "clip")
_OUTPUTS = ("loss", "predictions", "gradient_sum")


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A graph for training that has passed all checks.

    Attributes:
        facts: the description in the graph's metadata.
        digest: the file's SHA-256 digest, in hexadecimal.
        raw: the file's bytes.
    """

    facts: GraphFacts
    digest: str
    raw: bytes


def graph_file(path: Path) -> GraphFile:
    """Read and check a graph made by `sottovoce model build`.

    Raises:
        ConfigError: if the file is not such a graph, or is not safe to run on records.
    """
    return graph_bytes(read(path, MAX_GRAPH_BYTES), str(path))


def graph_bytes(raw: bytes, file: str) -> GraphFile:
    """Check the graph in a file's bytes, which must already have passed `scan`, and return it.

    Raises:
        ConfigError: see `graph_file`.
    """
    model = parse_model(raw, file, lambda opset: opset == OPSET)
    texts = [entry.value for entry in model.metadata_props if entry.key == KEY]
    if len(texts) != 1:
        raise ConfigError(
            f"{file}: the file has no description of what it computes, which graphs for training require; make it with "
            "`sottovoce model build`"
        )
    facts = read_facts(texts[0], file)
    _check_contract(model, facts, file)
    return GraphFile(facts, hashlib.sha256(raw).hexdigest(), raw)


def forward_file(path: Path) -> ModelProto:
    """Read and check an ordinary model with weights, which may come from any program.

    Raises:
        ConfigError: if the file is corrupt, malicious or not supported.
    """
    return forward_bytes(read(path, MAX_FORWARD_BYTES), str(path))


def forward_bytes(raw: bytes, file: str) -> ModelProto:
    """Check the model in a file's bytes, which must already have passed `scan`, and return it.

    Raises:
        ConfigError: see `forward_file`.
    """
    model = parse_model(raw, file, lambda opset: OLDEST_OPSET <= opset <= defs.onnx_opset_version())
    if any(entry.key == KEY for entry in model.metadata_props):
        raise ConfigError(
            f"{file}: the file is a graph for training, without weights: devices load it as it is; for predictions, "
            "specify a file made by `sottovoce model export`"
        )
    check_finite(model, file)
    return model


def parse_model(raw: bytes, file: str, is_supported_opset: Callable[[int], bool]) -> ModelProto:
    """Parse a model, and run the checks that apply to every kind of file.

    Args:
        raw: the file's bytes, which must already have passed `scan`.
        file: the file name, for error messages.
        is_supported_opset: returns whether an operator set version is supported.

    Raises:
        ConfigError: if a check fails; the message names the cause and the remedy.
    """
    try:
        model = ModelProto.FromString(raw)
    except DecodeError as error:
        raise ConfigError(f"{file}: the file is not an ONNX model, or is corrupt; export it again") from error
    check_tensors(model, file)
    opset = _check_versions(model, file)
    if not is_supported_opset(opset):
        raise ConfigError(
            f"{file}: the model uses operator set version {opset}, which is not supported: export it with opset 21"
        )
    _check_nodes(model, opset, file)
    _check_by_onnx(model, file)
    return model


def _check_versions(model: ModelProto, file: str) -> int:
    """Check a model's versions and that it has no functions of its own, and return the operator set version."""
    if not _OLDEST_IR <= model.ir_version <= onnx.IR_VERSION:
        raise ConfigError(
            f"{file}: the model has version {model.ir_version} of the file format; only {_OLDEST_IR} to "
            f"{onnx.IR_VERSION} are supported: export it again"
        )
    if model.functions or model.training_info or model.graph.sparse_initializer:
        raise ConfigError(
            f"{file}: the model contains its own functions or a training program: export it with them inlined"
        )
    versions = {entry.version for entry in model.opset_import if entry.domain in _DOMAINS}
    if len(versions) != 1:
        raise ConfigError(f"{file}: the model must specify exactly one version of ONNX's operators: export it again")
    return versions.pop()


def _check_nodes(model: ModelProto, opset: int, file: str) -> None:
    """Check that all operators are ONNX's, and that none of them runs a nested graph or draws random numbers."""
    if len(model.graph.node) > _MAX_NODES:
        raise ConfigError(f"{file}: the model has more than {_MAX_NODES} operations: use a smaller model")
    for node in model.graph.node:
        operator = f"operator {node.op_type[:40]!r} of node {(node.name or ', '.join(node.output))[:80]!r}"
        if node.domain not in _DOMAINS:
            raise ConfigError(
                f"{file}: {operator} is custom, of domain {node.domain[:40]!r}; only ONNX's own operators are allowed: "
                "replace it"
            )
        if node.op_type in _CONTROL_FLOW or any(entry.HasField("g") or entry.graphs for entry in node.attribute):
            raise ConfigError(f"{file}: {operator} runs a nested graph (control flow): unroll it")
        if node.op_type in _RANDOM:
            raise ConfigError(f"{file}: {operator} draws random numbers, which is not allowed: remove it")
        if any(max(len(entry.ints), len(entry.floats)) > _MAX_ATTRIBUTE_VALUES for entry in node.attribute):
            raise ConfigError(f"{file}: an attribute of {operator} has too many values; export the model again")
        if any(entry.ref_attr_name for entry in node.attribute):
            raise ConfigError(
                f"{file}: {operator} refers to attributes of a function that is missing in the file; export the model "
                "again"
            )
        if not defs.has(node.op_type, max_inclusive_version=opset):
            raise ConfigError(
                f"{file}: {operator} is not known in operator set version {opset}: export the model with opset 21"
            )


def _check_by_onnx(model: ModelProto, file: str) -> None:
    """Run ONNX's own checks, and check that every tensor in the graph fits into a device's memory."""
    try:
        checker.check_model(model, full_check=True)
        inferred = shape_inference.infer_shapes(model)
    except (checker.ValidationError, shape_inference.InferenceError, ValueError, RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(f"{file}: the file is not a valid ONNX model ({reason}); export it again") from error
    for value in [*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output]:
        known = [length for length in lengths(value) if length is not None]
        if prod(known) > _MAX_TENSOR_NUMBERS:
            raise ConfigError(
                f"{file}: the intermediate tensor {value.name[:80]!r} would have {prod(known)} numbers per example, "
                "which is too large for a device: use a smaller model"
            )


def lengths(value: ValueInfoProto) -> list[int | None]:
    """Return the dimensions of an input, output or intermediate tensor, with None for an unknown length."""
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]


def _check_contract(model: ModelProto, facts: GraphFacts, file: str) -> None:
    """Check that the inputs and outputs are those that a vault uses, with the sizes in the graph's description."""
    graph = model.graph
    kind = TensorProto.FLOAT if facts.classes == 1 else TensorProto.INT64
    sizes = {"parameters": facts.size, "gradient_sum": facts.size, "features": facts.features}
    contract = {**_CONTRACT, "labels": (kind, 1), "predictions": (kind, 1)}
    for names, values in ((_INPUTS, graph.input), (_OUTPUTS, graph.output)):
        if [value.name for value in values] != [*names]:
            raise ConfigError(
                f"{file}: the graph's inputs or outputs are not {', '.join(names)}; make it with "
                "`sottovoce model build`"
            )
        for value in values:
            shape, (dtype, rank) = lengths(value), contract[value.name]
            matches = value.type.tensor_type.elem_type == dtype and len(shape) == rank
            if not matches or (value.name in sizes and shape[-1] != sizes[value.name]):
                raise ConfigError(
                    f"{file}: {value.name} does not have the described type and shape; make the graph with "
                    "`sottovoce model build`"
                )
    if {tensor.name for tensor in graph.initializer} & {*_INPUTS}:
        raise ConfigError(f"{file}: the graph contains values for its inputs; make it with `sottovoce model build`")
