"""Reading of other programs' models: the rebuilt model has equal scores, and unsupported layers are named."""

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto
from sottovoce.errors import ConfigError
from sottovoce_lab.models.build import build_forward, build_graph
from sottovoce_lab.models.checks import forward_bytes
from sottovoce_lab.models.forward import Forward, body_tensors, read_forward, with_new_head

from tests.support.forward_models import CNN_INPUT, cnn, forward_model, run, weights_of

RANDOM = np.random.default_rng(1)


def read(model: ModelProto, **options: Any) -> Forward:
    return read_forward(forward_bytes(model.SerializeToString(), "file"), "file", "name", **options)


def check_scores(model: ModelProto, shape: tuple[int, ...] = CNN_INPUT, examples: int = 5) -> Forward:
    """Read a model, and compare its scores with the rebuilt model's."""
    result = read(model)
    x = RANDOM.normal(size=(examples, *shape))
    rebuilt = run(build_forward(result.declaration, result.parameters), x.reshape(examples, -1), "scores")
    np.testing.assert_allclose(rebuilt, run(model, x).reshape(examples, -1), rtol=1e-5, atol=1e-5)
    return result


def test_a_network_with_a_norm_and_a_residual_block_is_read() -> None:
    result = check_scores(cnn())
    assert [tensor.name for tensor in result.declaration.network.parameters] == [
        "conv1.weight", "conv1.bias", "norm1.weight", "norm1.bias", "block1.conv1.weight", "dense1.weight",
        "dense1.bias",
    ]  # fmt: skip
    assert (result.declaration.loss, result.declaration.classes) == ("softmax", 3)
    build_graph(result.declaration)  # and it can be trained


def test_a_norm_exported_in_parts_is_read() -> None:
    body = """
        h = Conv <kernel_shape = [3, 3]> (x, w)
        g = Reshape (h, groups)
        i = InstanceNormalization <epsilon = 1e-5> (g, ones, zeros)
        whole = Shape (h)
        j = Reshape (i, whole)
        m = Mul (j, scale)
        n = Add (m, shift)
        a = GlobalAveragePool (n)
        batch = Shape <start = 0, end = 1> (a)
        rest = Constant <value = int64[1] {-1}> ()
        flat = Concat <axis = 0> (batch, rest)
        y = Reshape (a, flat)
    """
    constants: dict[str, Any] = {
        "groups": np.array([0, 2, -1]),
        "ones": np.ones(2, dtype=np.float32),
        "zeros": np.zeros(2, dtype=np.float32),
        **weights_of({"w": (4, 1, 3, 3), "scale": (4, 1, 1), "shift": (4, 1, 1)}),
    }
    result = check_scores(forward_model(body, constants))
    assert "group-norm" in result.declaration.text


def test_two_paths_with_weights_and_a_nested_block_are_read() -> None:
    body = """
        a = Conv <kernel_shape = [1, 1]> (x, w1)
        b = Relu (a)
        c = Conv <kernel_shape = [1, 1]> (b, w2)
        d = Add (c, b)
        e = Relu (d)
        f = Conv <kernel_shape = [1, 1]> (e, w3)
        s = Conv <kernel_shape = [1, 1]> (x, w4)
        t = Add (s, f)
        p = ReduceMean <keepdims = 0> (t, axes)
        y = Identity (p)
    """
    shapes = {"w1": (3, 1, 1, 1), "w2": (3, 3, 1, 1), "w3": (4, 3, 1, 1), "w4": (4, 1, 1, 1)}
    result = check_scores(forward_model(body, {**weights_of(shapes), "axes": np.array([2, 3])}))
    names = [tensor.name for tensor in result.declaration.network.parameters]
    assert "block1.block1.conv1.weight" in names
    assert "block1.shortcut.conv1.weight" in names


def test_a_dense_layer_in_two_operators_and_a_sequence_are_read() -> None:
    body = """
        h = Conv <kernel_shape = [3], pads = [1, 1], strides = [2]> (x, w)
        t = Tanh (h)
        p = AveragePool <kernel_shape = [2], strides = [2]> (t)
        f = Flatten (p)
        m = MatMul (f, u)
        y = Add (c, m)
    """
    weights = weights_of({"w": (4, 2, 3), "u": (8, 3), "c": (3,)})
    result = check_scores(forward_model(body, weights, input=(2, 8)), (2, 8))
    assert result.declaration.network.input == (2, 1, 8)


def test_a_flat_input_reshaped_to_an_image_is_read() -> None:
    body = """
        shape = Constant <value = int64[4] {-1, 1, 6, 6}> ()
        i = Reshape (x, shape)
        h = Conv <kernel_shape = [3, 3]> (i, w)
        y = Flatten (h)
    """
    result = check_scores(forward_model(body, weights_of({"w": (1, 1, 3, 3)}), input=(36,)), (36,))
    assert result.declaration.network.input == (1, 6, 6)


@pytest.mark.parametrize(
    "width, end, loss, classes",
    [
        (3, "y = Softmax <axis = 1> (d)", "softmax", 3),
        (3, "y = LogSoftmax (d)", "softmax", 3),
        (1, "y = Sigmoid (d)", "binary", 2),
        (1, "y = Identity (d)", "squared", 1),
        (2, "y = Identity (d)", "softmax", 2),
    ],
)
def test_a_final_probability_layer_is_omitted(width: int, end: str, loss: str, classes: int) -> None:
    weights = weights_of({"w": (width, 4)})
    result = read(forward_model(f"d = Gemm <transB = 1> (x, w) {end}", weights, input=(4,)))
    assert (result.declaration.loss, result.declaration.classes) == (loss, classes)
    assert result.parameters.tolist() == weights["w"].ravel().tolist()
    x = RANDOM.normal(size=(3, 4))
    scores = run(build_forward(result.declaration, result.parameters), x, "scores")
    np.testing.assert_allclose(scores, x @ weights["w"].T.astype(np.float64), rtol=1e-5, atol=1e-6)


def test_a_custom_loss_is_used() -> None:
    model = forward_model("d = Gemm (x, w) y = Sigmoid (d)", weights_of({"w": (4, 1)}), input=(4,))
    assert read(model, loss="hinge").declaration.loss == "hinge"
    stored = read(model, loss="squared").declaration
    assert (stored.classes, stored.network.stages[-1].output) == (1, (1,))
    assert "sigmoid" in stored.text


REFUSED: dict[str, tuple[str, dict[str, tuple[int, ...]], str]] = {
    "an operator that is no layer": (
        "h = Elu (x) y = Flatten (h)",
        {},
        "operator Elu of node 'h': ",
    ),
    "batch norm": (
        "h = BatchNormalization (x, one, one, one, one) y = Flatten (h)",
        {"one": (1,)},
        "batch norm mixes the examples.*GroupNorm",
    ),
    "a fixed number of examples": (
        "shape = Constant <value = int64[2] {5, 36}> () y = Reshape (x, shape)",
        {},
        "fixes",
    ),
    "examples that are mixed": ("y = Flatten <axis = 0> (x)", {}, "mixes examples"),
    "groups": ("h = Conv <group = 2> (x, w) y = Flatten (h)", {"w": (2, 1, 1, 1)}, "Conv.*grouped"),
    "dilation": ("h = Conv <dilations = [2, 2]> (x, w) y = Flatten (h)", {"w": (1, 1, 2, 2)}, "dilated"),
    "one-sided padding": (
        "h = MaxPool <kernel_shape = [2, 2], pads = [0, 0, 1, 1]> (x) y = Flatten (h)",
        {},
        "side",
    ),
    "an average without its padding": (
        "h = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x) y = Flatten (h)",
        {},
        "leaves",
    ),
    "another epsilon": (
        "h = InstanceNormalization <epsilon = 0.1> (x, one, one) y = Flatten (h)",
        {"one": (1,)},
        r"0\.1.*variance",
    ),
    "a norm of a part": ("h = LayerNormalization (x, w) y = Flatten (h)", {"w": (6,)}, r"\bpart\b"),
    "a constant on the input": ("h = Add (x, c) y = Flatten (h)", {"c": (1, 1, 1)}, "after a dense"),
    "a sum of one thing with itself": ("h = Add (x, x) y = Flatten (h)", {}, "a tensor to itself"),
    "weights that are computed": ("f = Flatten (x) y = MatMul (f, f)", {}, "computed"),
    "scores that are an image": ("y = Relu (x)", {}, r"row.*scores"),
    "a softmax inside": (
        "f = Flatten (x) s = Softmax (f) y = Gemm <transB = 1> (s, w)",
        {"w": (3, 36)},
        "softmax before its end",
    ),
    "a result used in two places": (
        "f = Flatten (x) a = Gemm (f, w) b = Relu (a) c = Gemm (b, v) d = Add (c, b) y = Add (d, c)",
        {"w": (36, 4), "v": (4, 4)},
        "used in two places",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_layers_are_refused_by_name(name: str) -> None:
    body, shapes, words = REFUSED[name]
    with pytest.raises(ConfigError, match=words) as refused:
        read(forward_model(body, dict(weights_of(shapes)), rank=4 if name == "scores that are an image" else 2))
    assert str(refused.value).startswith("file: ")


def test_a_new_head_starts_at_zero_and_the_body_keeps_its_weights() -> None:
    original = read(cnn())
    tuned = with_new_head(original, 7, "file")
    body = sum(tensor.size for tensor in original.declaration.network.parameters[:-2])
    assert body_tensors(tuned.declaration) == len(original.declaration.network.parameters) - 2
    assert (tuned.declaration.classes, tuned.declaration.outputs) == (7, 7)
    np.testing.assert_array_equal(tuned.parameters[:body], original.parameters[:body])
    assert tuned.parameters[body:].tolist() == [0] * (7 * 16 + 7)


def test_a_head_that_cannot_be_replaced_is_named() -> None:
    ends_in_relu = forward_model("f = Flatten (x) g = Gemm (f, w) y = Relu (g)", weights_of({"w": (36, 3)}))
    with pytest.raises(ConfigError, match=r"file: .*relu.*--classes"):
        with_new_head(read(ends_in_relu), 4, "file")
    one_score = forward_model("f = Flatten (x) g = Gemm (f, w) y = Sigmoid (g)", weights_of({"w": (36, 1)}))
    with pytest.raises(ConfigError, match=r"file: loss: binary.*--loss softmax"):
        with_new_head(read(one_score), 4, "file")
