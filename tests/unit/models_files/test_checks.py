"""Model file of any origin: refused with a single clear error before any code trusts it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from sottovoce.errors import ConfigError
from sottovoce.kernels.onnx.allowlist import STOCK, stock_hashes
from sottovoce_lab.models.build import graph_bytes as built
from sottovoce_lab.models.checks import GraphFile, forward_bytes, forward_file, graph_bytes, graph_file
from sottovoce_lab.models.declaration import parse_declaration
from sottovoce_lab.models.scan import MAX_LIGHT_BYTES, MAX_PARTS, read, scan

from tests.support.forward_models import cnn

DECLARATION = """
name = "small"
input = [4]
classes = 3
loss = "softmax"
layers = [{kind = "dense", units = 3}]
"""
MANY = 2**40


@pytest.fixture(scope="module")
def graph() -> bytes:
    return built(parse_declaration(DECLARATION, "declaration"))


def alter_model(raw: bytes, change: Callable[[ModelProto], object]) -> bytes:
    model = ModelProto.FromString(raw)
    change(model)
    return model.SerializeToString()


def external(tensor: TensorProto, location: str) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)


def inner(tensor: TensorProto) -> onnx.NodeProto:
    """Return a node with a tensor in an inner graph."""
    body = helper.make_graph([], "body", [], [], [tensor])
    return helper.make_node("If", ["x"], ["never"], then_branch=body, else_branch=body)


@pytest.mark.parametrize("name", [*stock_hashes()])
def test_the_package_s_own_graphs_pass(name: str) -> None:
    result = graph_file(STOCK / f"{name}.onnx")
    assert (result.facts.name, result.digest) == (name, stock_hashes()[name])


def test_a_checked_graph_s_properties(graph: bytes) -> None:
    result = graph_bytes(graph, "file")
    assert isinstance(result, GraphFile)
    assert result.facts.size == 15
    forward_bytes(cnn().SerializeToString(), "file")


FORWARD: dict[str, tuple[Callable[[ModelProto], object], str]] = {
    "weights in another file": (lambda m: external(m.graph.initializer[0], "weights.bin"), "external data.*one file"),
    "a path that climbs": (lambda m: external(m.graph.initializer[0], "../../etc/passwd"), "path traversal"),
    "an absolute path": (lambda m: external(m.graph.initializer[0], "/etc/passwd"), "path traversal"),
    "a drive": (lambda m: external(m.graph.initializer[0], "C:\\secret"), "path traversal"),
    "a path in a constant": (
        lambda m: external(m.graph.node.add(op_type="Constant").attribute.add(name="value", type=4).t, "../x"),
        "path traversal",
    ),
    "a path in an inner graph": (
        lambda m: m.graph.node.append(inner(TensorProto(external_data=[{"key": "location", "value": "../x"}]))),
        "path traversal",
    ),
    "a path in a function": (
        lambda m: external(m.functions.add(name="f").node.add().attribute.add(name="value").t, "/x"),
        "path traversal",
    ),
    "a path in sparse weights": (
        lambda m: external(m.graph.sparse_initializer.add().values, "/x"),
        "path traversal",
    ),
    "sparse weights": (
        lambda m: m.graph.sparse_initializer.add().values.CopyFrom(
            numpy_helper.from_array(np.ones(3, dtype=np.float32), "sparse")
        ),
        "'sparse' is sparse",
    ),
    "huge dimensions": (
        lambda m: m.graph.initializer.add(name="huge", data_type=1, dims=[MANY, MANY]),
        f"'huge' declares {MANY**2} numbers, but the file contains a different number",
    ),
    "dimensions that are more than the numbers": (
        lambda m: m.graph.initializer[0].dims.append(1000),
        "declares 36000 numbers",
    ),
    "negative dimensions": (lambda m: m.graph.initializer.add(data_type=1, dims=[-1, -1]), "impossible dimensions"),
    "strings for weights": (
        lambda m: m.graph.initializer.add(name="words", data_type=TensorProto.STRING),
        "'words' has type STRING.*float32",
    ),
    "a weight that is no number": (
        lambda m: m.graph.initializer[0].CopyFrom(
            numpy_helper.from_array(np.full((4, 1, 3, 3), np.nan, dtype=np.float32), "conv_weight")
        ),
        "'conv_weight' contains a number that is not finite",
    ),
    "a custom operator": (
        lambda m: m.graph.node.add(op_type="Steal", domain="com.evil", output=["z"]),
        "operator 'Steal' of node 'z' is custom, of domain 'com.evil'",
    ),
    "an operator that is none": (lambda m: m.graph.node.add(op_type="Relux", output=["z"]), "'Relux'.*not known"),
    "chance": (lambda m: m.graph.node.add(op_type="RandomUniform", output=["z"]), "draws random numbers"),
    "a loop": (lambda m: m.graph.node.add(op_type="Loop", output=["z"]), "control flow"),
    "a branch": (
        lambda m: m.graph.node.append(inner(numpy_helper.from_array(np.ones(1), "t"))),
        "operator 'If'.*control flow",
    ),
    "functions": (lambda m: m.functions.add(name="f", domain="d"), "functions.*inlined"),
    "a training program": (lambda m: m.training_info.add(), "training program"),
    "an old version": (lambda m: setattr(m.opset_import[0], "version", 9), "version 9.*opset 21"),
    "two versions": (lambda m: m.opset_import.add(version=18), "exactly one version of ONNX"),
    "another file format": (lambda m: setattr(m, "ir_version", 3), "version 3 of the file format"),
    "a node without what it needs": (lambda m: setattr(m.graph.node[0], "op_type", "Gemm"), "not a valid ONNX model"),
    "a missing value": (lambda m: m.graph.node[2].input.__setitem__(0, "nowhere"), "not a valid ONNX model"),
    "nothing": (lambda m: m.Clear(), "version 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORWARD)
def test_a_hostile_file_is_refused_with_its_name_the_cause_and_a_remedy(name: str) -> None:
    change, words = FORWARD[name]
    with pytest.raises(ConfigError, match=words) as refused:
        forward_bytes(alter_model(cnn().SerializeToString(), change), "evil.onnx")
    assert str(refused.value).startswith("evil.onnx: ")
    assert "\n" not in str(refused.value)


GRAPH: dict[str, tuple[Callable[[ModelProto], object], str]] = {
    "no description": (lambda m: m.ClearField("metadata_props"), "no description of what it computes"),
    "a description that is none": (lambda m: setattr(m.metadata_props[0], "value", "{}"), "cannot be read"),
    "other outputs": (lambda m: m.graph.output.pop(), "outputs are not loss, predictions, gradient_sum"),
    "another number of features": (
        lambda m: setattr(m.graph.input[1].type.tensor_type.shape.dim[1], "dim_value", 5),
        "not a valid ONNX model",
    ),
    "another number of parameters": (
        lambda m: setattr(m.metadata_props[0], "value", m.metadata_props[0].value.replace("[3,4]", "[3,5]")),
        "parameters does not have the described type and shape",
    ),
    "another version": (lambda m: setattr(m.opset_import[0], "version", 22), "version 22.*opset 21"),
    "a tensor inside that no device holds": (
        lambda m: m.graph.node.extend(
            [
                helper.make_node("Constant", [], ["size"], value_ints=[MANY]),
                helper.make_node("ConstantOfShape", ["size"], ["huge"]),
            ]
        ),
        f"'huge' would have {MANY} numbers",
    ),
}


@pytest.mark.parametrize("name", GRAPH)
def test_a_graph_that_contradicts_its_description_is_refused(name: str, graph: bytes) -> None:
    change, words = GRAPH[name]
    with pytest.raises(ConfigError, match=words) as refused:
        graph_bytes(alter_model(graph, change), "evil.onnx")
    assert str(refused.value).startswith("evil.onnx: ")


@pytest.mark.parametrize(
    "text", ["a=" + "[" * 30_000, DECLARATION.replace("layers = [", "layers = [" + "{layers = [" * 900)]
)
def test_nested_tables_in_a_declaration_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="file: "):
        parse_declaration(text, "file")


def test_an_attribute_with_too_many_numbers_is_refused() -> None:
    def fill(model: ModelProto) -> None:
        model.graph.node[0].attribute.add(name="pads", type=7).ints.extend([0] * 5000)

    with pytest.raises(ConfigError, match=r"attribute.*values"):
        forward_bytes(alter_model(cnn().SerializeToString(), fill), "file")


def test_a_training_graph_is_not_an_ordinary_model(graph: bytes) -> None:
    with pytest.raises(ConfigError, match="training"):
        forward_bytes(graph, "file")


@pytest.mark.parametrize("raw", [b"\0", b"\x0a", b"\x0a\xff\xff\xff\xff\x0f", b"<html>", b"\xff" * 40, b"\x0b\x0c"])
def test_bytes_that_are_not_a_model_are_refused(raw: bytes) -> None:
    with pytest.raises(ConfigError, match=r"file: .*ONNX"):
        scan(raw, "file")


@pytest.mark.parametrize(
    "whole",
    [b"\x3a\x02\x0a\x00" * (MAX_PARTS // 2 + 1), b"\x32" + b"\x81\x80\x80\x08" + b"x" * (MAX_LIGHT_BYTES + 1)],
)
def test_a_file_that_needs_more_memory_than_its_length_is_refused(whole: bytes) -> None:
    with pytest.raises(ConfigError, match="large"):
        scan(whole, "file")


def test_deeply_nested_messages_are_refused() -> None:
    nested = b""
    for _ in range(60):
        nested = b"\x22" + _length(b"\x0a" + _length(nested))  # a type: a sequence of a type: …
    model = b"\x3a" + _length(b"\x5a" + _length(b"\x12" + _length(nested)))
    with pytest.raises(ConfigError, match="ONNX"):
        scan(model, "file")
    scan(b"\x3a" + _length(b"\x5a" + _length(b"\x12" + _length(b"\x22" + _length(b"\x0a\x00")))), "file")


def _length(raw: bytes) -> bytes:
    size, received = len(raw), b""
    while size > 127:
        received, size = received + bytes([size & 127 | 128]), size >> 7
    return received + bytes([size]) + raw


def test_an_oversized_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(ConfigError, match=r"large\.onnx.*1 MiB"):
        read(path, 2**20)


@pytest.mark.parametrize("place", ["absent.onnx", "."])
def test_a_path_that_is_not_a_file_is_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(ConfigError, match=r"such.*file"):
        forward_file(tmp_path / place)
