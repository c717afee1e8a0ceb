"""File that is not a Sottovoce graph: refused with a single error that states the fault and the remedy."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from msgspec import structs
from onnx import TensorProto, helper
from sottovoce.errors import ConfigError, InternalError
from sottovoce.kernels.onnx.forward import prune_to_outputs
from sottovoce.kernels.onnx.session import Chunk, GraphSession

from tests.support.graphs import checked_file, graph, make_graph_facts

REMEDY = "build the graph file with `sottovoce model build`"


@pytest.mark.parametrize(
    "model, why",
    [
        (b"", r"ONNX Runtime.*load"),
        (b"name = 'mnist-cnn'\n", r"ONNX Runtime.*load"),
        (graph()[:300], r"ONNX Runtime.*load"),
        (graph(extra=[helper.make_node("Steal", ["features"], ["y"], domain="my.own")]), "my.own"),
        (graph(drop="mask"), "'mask'"),
        (graph(drop="loss"), r"output loss.*double\[\]"),
        (graph(drop="gradient_sum"), r"gradient_sum.*double\[8\]"),
        (graph(facts=""), "description"),
        (graph(facts="what?"), "read"),
        (graph(facts='{"version": 1}'), "read"),
        (graph(4, facts=make_graph_facts(3, 2)), r"float\[10\].*float\[8\]"),
        (graph(3, 2, facts=make_graph_facts(3, 1)), r"float\[8\].*float\[4\]"),
    ],
)
def test_another_kind_of_file_is_refused(model: bytes, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=why) as exc_info:
        GraphSession(model, "theirs.onnx")
    assert REMEDY in str(exc_info.value)
    assert "theirs.onnx" in str(exc_info.value)
    assert "\n" not in str(exc_info.value)
    assert capfd.readouterr() == ("", ""), "nor does the runtime print anything"


@pytest.mark.parametrize(
    "weights, why",
    [
        (np.zeros(8, dtype=np.float32).tobytes()[:-1], "cut off"),
        (np.zeros(7, dtype=np.float32).tobytes(), r"\b7\b.*\b8\b"),
        (np.full(8, np.nan, dtype=np.float32).tobytes(), "not finite"),
        (np.full(9, -2e6, dtype=np.float32).tobytes(), "1e\\+06"),
    ],
)
def test_initial_weights_that_do_not_fit_are_refused(weights: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"theirs\.onnx.*{why}"):
        GraphSession(graph(facts=structs.replace(make_graph_facts(3, 2), weights=weights)), "theirs.onnx")


def test_only_the_expected_inputs_and_outputs_are_allowed(tmp_path: Path) -> None:
    model = onnx.load_model_from_string(graph())
    model.graph.output.append(helper.make_tensor_value_info("slopes", TensorProto.FLOAT, ["B", 2]))
    with pytest.raises(ConfigError, match=r"slopes.*float\[any, 2\]"):
        GraphSession(model.SerializeToString(), "theirs.onnx")


@pytest.mark.parametrize("where", ["weights.bin", "{}/weights.bin", "../{0.name}/weights.bin"])
def test_numbers_in_another_file_are_not_accessible(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.zeros(1, dtype=np.float32).tofile(tmp_path / "weights.bin")
    model = onnx.load_model_from_string(graph(3, 1))
    outside = next(tensor for tensor in model.graph.initializer if tensor.name == "half")
    outside.Clear()
    outside.name, outside.data_type, outside.data_location = "half", TensorProto.FLOAT, TensorProto.EXTERNAL
    outside.external_data.add(key="location", value=where.format(tmp_path))
    with pytest.raises(ConfigError, match=r"ONNX Runtime.*load"):
        GraphSession(model.SerializeToString(), "theirs.onnx")


def test_a_runtime_failure_reveals_nothing_about_a_record(capfd: pytest.CaptureFixture[str]) -> None:
    """The runtime's own message contains the value that is out of bounds."""
    gather = [
        helper.make_node("Gather", ["parameters", "labels"], ["picked_out"]),
        helper.make_node("ReduceSum", ["picked_out"], ["found"], keepdims=0),
        helper.make_node("Cast", ["found"], ["found_double"], to=TensorProto.DOUBLE),
        helper.make_node("Add", ["gradient_sum_", "found_double"], ["gradient_sum"]),
    ]
    model = onnx.load_model_from_string(graph())
    model.graph.node[-1].output[0] = "gradient_sum_"
    model.graph.node.extend(gather)
    session = GraphSession(checked_file(model.SerializeToString()), "theirs.onnx")
    rows, mask = np.zeros((2, 3), dtype=np.float32), np.ones(2, dtype=np.bool_)
    with pytest.raises(InternalError) as exc_info:
        session.gradient_sum(np.zeros(8, dtype=np.float32), Chunk(rows, np.array([0, 7351]), mask), 1.0)
    assert "7351" not in str(exc_info.value)
    assert exc_info.value.__suppress_context__
    assert capfd.readouterr() == ("", "")


def test_the_forward_part_contains_no_gradient() -> None:
    full = checked_file(graph())
    part = onnx.load_model_from_string(checked_file(prune_to_outputs(full, ("loss", "predictions"))))
    assert {output.name for output in part.graph.output} == {"loss", "predictions"}
    assert {"cD", "norms", "gradient_sum"}.isdisjoint(name for node in part.graph.node for name in node.output)
    assert prune_to_outputs(full, ("loss", "predictions", "gradient_sum")) == full


def test_a_part_with_an_inner_graph_stays_complete() -> None:
    """An inner graph's inputs do not appear outside it."""
    inner = helper.make_graph(
        [helper.make_node("Identity", ["predictions_"], ["chosen"])],
        "inner",
        [],
        [helper.make_tensor_value_info("chosen", TensorProto.INT64, ["B"])],
    )
    model = onnx.load_model_from_string(graph())
    node = next(node for node in model.graph.node if node.output[0] == "predictions")
    node.output[0] = "predictions_"
    model.graph.node.extend(
        [
            helper.make_node("IsInf", ["clip"], ["always"]),
            helper.make_node("If", ["always"], ["predictions"], then_branch=inner, else_branch=inner),
        ]
    )
    part = onnx.load_model_from_string(
        checked_file(prune_to_outputs(checked_file(model.SerializeToString()), ("predictions",)))
    )
    assert len(part.graph.node) == len(model.graph.node)


@pytest.mark.parametrize("bytes_", [b"\x3a\x7f\x00", b"\x3b", b"\xff" * 11, b"\x39\x00"])
def test_an_inseparable_graph_is_refused(bytes_: bytes) -> None:
    with pytest.raises(ConfigError, match="parsed"):
        prune_to_outputs(bytes_, ("loss",))
