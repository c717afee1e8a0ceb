"""Ordinary models with weights, written in ONNX's text format, and a helper that runs one."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper, parser
from sottovoce.kernels.onnx.session import onnxruntime

Floats = NDArray[np.float32]

CNN = """
    h = Conv <kernel_shape = [3, 3]> (x, conv_weight, conv_bias)
    n = GroupNormalization <num_groups = 2, epsilon = 1e-5> (h, norm_weight, norm_bias)
    r = Relu (n)
    q = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (r, block_weight)
    s = Add (q, r)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (s)
    f = Flatten (p)
    y = Gemm <transB = 1> (f, dense_weight, dense_bias)
"""
CNN_WEIGHTS = {
    "conv_weight": (4, 1, 3, 3), "conv_bias": (4,), "norm_weight": (4,), "norm_bias": (4,),
    "block_weight": (4, 4, 3, 3), "dense_weight": (3, 16), "dense_bias": (3,),
}  # fmt: skip
CNN_INPUT = (1, 6, 6)


def weights_of(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, Floats]:
    """Draw random weights by name."""
    random = np.random.default_rng(seed)
    return {name: random.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def forward_model(
    body: str,
    weights: dict[str, NDArray[Any]],
    *,
    input: tuple[int, ...] = CNN_INPUT,  # noqa: A002 - as in a declaration
    rank: int = 2,
    batch: str = "B",
    opset: int = 21,
) -> ModelProto:
    """Build a model with one input `x` and one output `y`.

    Args:
        body: the model's nodes.
        weights: the model's initialisers.
        input: shape of one example.
        rank: number of dimensions of y.
        batch: first dimension of x.
        opset: version of the operators.
    """
    declared = ", ".join(
        f"{_kind(value)}[{', '.join(map(str, value.shape))}] {name}" for name, value in weights.items()
    )
    shape = ", ".join(map(str, (batch, *input)))
    output = ", ".join(f"n{index}" for index in range(rank))
    graph = f"agraph (float[{shape}] x) => (float[{output}] y) <{declared}> {{{body}}}"
    model: ModelProto = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {graph}')
    del model.graph.value_info[:]
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    return model


def cnn() -> ModelProto:
    """Build a small network with a group norm and a residual block, with 36 features and 3 classes."""
    return forward_model(CNN, weights_of(CNN_WEIGHTS))


def run(model: ModelProto, x: NDArray[Any], output: str = "y") -> NDArray[Any]:
    """Run a model on examples in ONNX Runtime, and return its output."""
    runtime = onnxruntime()
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    result: NDArray[Any] = session.run([output], {session.get_inputs()[0].name: x.astype(np.float32)})[0]
    return result


def _kind(value: NDArray[Any]) -> str:
    return {"f": "float", "i": "int64"}[value.dtype.kind]
