"""Built graphs: stock graphs equal their declarations, byte for byte, and exported ones only predict."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, checker, shape_inference
from sottovoce.errors import ConfigError
from sottovoce.kernels.onnx.kernel import OnnxKernel
from sottovoce.kernels.onnx.session import GraphSession
from sottovoce_lab.models.build import build_forward, build_graph, graph_bytes
from sottovoce_lab.models.declaration import parse_declaration

from tests.support.graph_runs import STOCK, Run, batch, declared, draw_parameters, facts, session, stock, stock_names

SMALL: list[dict[str, Any]] = [{"kind": "dense", "units": 4}, {"kind": "tanh"}]


@pytest.mark.parametrize("name", stock_names())
def test_a_stock_graph_equals_its_declaration_s_build(name: str) -> None:
    assert (STOCK / f"{name}.onnx").read_bytes() == graph_bytes(stock(name))


@pytest.mark.parametrize("name", stock_names())
def test_a_stock_graph_conforms_to_the_standard(name: str) -> None:
    model = onnx.load(STOCK / f"{name}.onnx", load_external_data=False)
    checker.check_model(model, full_check=True)
    shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 21)]
    assert model.ir_version == 10
    assert {node.domain for node in model.graph.node} == {""}
    assert sum(np.prod(constant.dims) for constant in model.graph.initializer) < 10_000
    assert facts(model).name == name


def test_a_graph_has_the_inputs_and_outputs_that_devices_expect() -> None:
    for classes, label in ((1, TensorProto.FLOAT), (3, TensorProto.INT64)):
        loss = "squared" if classes == 1 else "softmax"
        text = declared([*SMALL, {"kind": "dense", "units": classes}], (5,), classes, loss)
        model = build_graph(parse_declaration(text, "test"))
        size = 24 + 5 * classes
        assert signature(model.graph.input) == {
            "parameters": (TensorProto.FLOAT, [size]),
            "features": (TensorProto.FLOAT, ["B", 5]),
            "labels": (label, ["B"]),
            "mask": (TensorProto.BOOL, ["B"]),
            "clip": (TensorProto.DOUBLE, []),
        }
        assert signature(model.graph.output) == {
            "loss": (TensorProto.DOUBLE, []),
            "predictions": (label, ["B"]),
            "gradient_sum": (TensorProto.DOUBLE, [size]),
        }
        reported = facts(model)
        assert (reported.features, reported.classes, reported.loss, reported.size, reported.declaration) == (
            5,
            classes,
            loss,
            size,
            text,
        )


def test_large_models_use_small_chunks() -> None:
    assert {name: facts(build_graph(stock(name))).chunk for name in stock_names()} == {
        "cifar-cnn": 8, "har-cnn": 32, "meter-tcn": 64, "mnist-cnn": 16, "mnist-mlp": 64, "resnet-18": 1,
    }  # fmt: skip


@pytest.mark.parametrize("loss,classes,units", [("softmax", 3, 3), ("binary", 2, 1), ("squared", 1, 1)])
def test_an_exported_model_predicts_like_the_graph(loss: str, classes: int, units: int) -> None:
    run = Run(declared([*SMALL, {"kind": "dense", "units": units}], (5,), classes, loss))
    parameters, examples = draw_parameters(run.declaration, seed=0), batch(run.declaration, 9, seed=0)
    exported = build_forward(run.declaration, parameters)
    assert {entry.name for entry in exported.graph.initializer} >= {t.name for t in run.declaration.network.parameters}
    assert [value.name for value in exported.graph.input] == ["features"]
    scores, predictions = session(exported).run(["scores", "predictions"], {"features": examples.features})
    assert scores.shape == (9, units)
    np.testing.assert_allclose(predictions, run(parameters, examples).predictions, rtol=1e-6)


@pytest.mark.parametrize("frozen", [2, 4])
def test_a_frozen_layer_is_a_constant_that_is_not_trained(frozen: int) -> None:
    """The head's gradient is that in the whole network, and is clipped by its own length alone."""
    whole = Run(declared([*SMALL, *SMALL, {"kind": "dense", "units": 3}], (5,), 3, "softmax"))
    parameters, examples = draw_parameters(whole.declaration, seed=0), batch(whole.declaration, 9, 0)
    partial = Run(whole.declaration, weights=parameters, frozen=frozen)
    head = parameters[-partial.facts.size :]
    assert partial.facts.parameters == whole.facts.parameters[frozen:]
    np.testing.assert_array_equal(partial.facts.all_weights, parameters.astype(np.float32))
    assert len(partial.facts.frozen_weights) == len(parameters) - len(head)
    expected, found = whole(parameters, examples, np.inf), partial(head, examples, np.inf)
    np.testing.assert_allclose(found.gradient_sum, expected.gradient_sum[-len(head) :], rtol=1e-5)
    np.testing.assert_array_equal(found.predictions, expected.predictions)
    first = partial(head, examples[:1], np.inf).gradient_sum
    clip = float(np.linalg.norm(first)) / 2
    np.testing.assert_allclose(partial(head, examples[:1], clip).gradient_sum, first / 2, rtol=1e-4)


def test_a_model_that_starts_from_public_weights_is_trained_in_all_layers() -> None:
    text = declared([*SMALL, {"kind": "dense", "units": 3}], (5,), 3, "softmax")
    weights = np.arange(39, dtype=np.float32)
    run = Run(text, weights=weights)
    assert (run.facts.size, len(run.facts.frozen_weights)) == (39, 0)
    kernel = OnnxKernel(GraphSession(run.model.SerializeToString(), "test"), 8)
    np.testing.assert_array_equal(kernel.initial(0), weights)


@pytest.mark.parametrize("name", ["mnist-cnn", "har-cnn"])
def test_an_exported_model_contains_no_backward_pass(name: str) -> None:
    model = stock(name)
    exported = build_forward(model, draw_parameters(model, seed=0))
    kinds = {node.op_type for node in exported.graph.node}
    assert kinds.isdisjoint({"ConvTranspose", "MaxUnpool", "ScatterElements", "ReduceSum", "Where"})
    assert all(len(node.output) == 1 for node in exported.graph.node)


def test_another_model_s_parameters_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"mnist-cnn.*\b28938\b.*\b3\b"):
        build_forward(stock("mnist-cnn"), np.zeros(3))


def signature(values: Iterable[onnx.ValueInfoProto]) -> dict[str, tuple[int, list[int | str]]]:
    """Return names, types and shapes."""
    return {
        value.name: (
            value.type.tensor_type.elem_type,
            [dimension.dim_param or dimension.dim_value for dimension in value.type.tensor_type.shape.dim],
        )
        for value in values
    }
