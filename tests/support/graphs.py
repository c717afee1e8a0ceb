"""A small hand-written graph that meets the graph contract: a softmax classifier or a linear regression."""

from collections.abc import Sequence
from typing import Literal

import onnx
from onnx import NodeProto, TensorProto, helper
from sottovoce.kernels.onnx.facts import KEY, GraphFacts, ParameterFacts, write_facts

FLOAT, DOUBLE, INT, BOOL = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.BOOL
Flaw = Literal["mixes rows", "goes by place", "draws", "does not clip"]
_FLAWS: dict[str, list[NodeProto]] = {
    "mixes rows": [
        helper.make_node("ReduceMean", ["features", "zero"], ["mean"], keepdims=1),
        helper.make_node("Add", ["features", "mean"], ["x"]),
    ],
    "goes by place": [
        helper.make_node("Shape", ["features"], ["shape"]),
        helper.make_node("Expand", ["small", "shape"], ["smalls"]),
        helper.make_node("CumSum", ["smalls", "zero_scalar"], ["grows"]),
        helper.make_node("Add", ["features", "grows"], ["x"]),
    ],
    "draws": [
        helper.make_node("RandomUniformLike", ["features"], ["random"]),
        helper.make_node("Add", ["features", "random"], ["x"]),
    ],
}


def make_graph_facts(features: int, classes: int, chunk: int = 8) -> GraphFacts:
    """Return the facts that the graph states about itself."""
    parameters = (
        ParameterFacts("dense1.weight", (classes, features), "uniform", 0.5),
        ParameterFacts("dense1.bias", (classes,), "constant", 0.25),
    )
    loss = "squared" if classes == 1 else "softmax"
    return GraphFacts(1, "tiny", features, classes, loss, chunk, parameters, "name = 'tiny'")  # type: ignore[arg-type]


def graph(
    features: int = 3,
    classes: int = 2,
    *,
    facts: GraphFacts | str | None = None,
    flaw: Flaw | None = None,
    drop: str = "",
    extra: Sequence[NodeProto] = (),
) -> bytes:
    """Return the bytes of the graph's file.

    Args:
        features: number of columns, without a target.
        classes: number of classes; 1 for a regression.
        facts: facts that the file states about itself; None for the true facts.
        flaw: error in the graph's arithmetic.
        drop: name of an input or output to leave out.
        extra: further nodes.
    """
    stated = facts if facts is not None else make_graph_facts(features, classes)
    label, regression = FLOAT if classes == 1 else INT, classes == 1
    weights, size = features * classes, (features + 1) * classes
    inputs: list[tuple[str, int, list[str | int]]] = [
        ("parameters", FLOAT, [size]), ("features", FLOAT, ["B", features]), ("labels", label, ["B"]),
        ("mask", BOOL, ["B"]), ("clip", DOUBLE, []),
    ]  # fmt: skip
    outputs: list[tuple[str, int, list[str | int]]] = [
        ("loss", DOUBLE, []),
        ("predictions", label, ["B"]),
        ("gradient_sum", DOUBLE, [size]),
    ]
    nodes = [
        *_FLAWS.get(flaw or "", [helper.make_node("Identity", ["features"], ["x"])]),
        helper.make_node("Slice", ["parameters", "zero", "weights"], ["flat"]),
        helper.make_node("Slice", ["parameters", "weights", "size"], ["bias"]),
        helper.make_node("Reshape", ["flat", "matrix"], ["weight"]),
        helper.make_node("Gemm", ["x", "weight", "bias"], ["scores"], transB=1),
        *(_squared() if regression else _softmax(classes)),
        helper.make_node("Cast", ["losses"], ["doubles"], to=DOUBLE),
        helper.make_node("Where", ["mask", "doubles", "none"], ["counted"]),
        helper.make_node("ReduceSum", ["counted"], ["loss"], keepdims=0),
        *_clipped("unit" if flaw == "does not clip" else "shortened"),
        *extra,
    ]
    constants = [
        helper.make_tensor(name, INT, [len(values)], values)
        for name, values in {
            "zero": [0], "weights": [weights], "size": [size], "matrix": [classes, features], "last": [-1], "one": [1],
            "depth": [classes], "flat_shape": [-1],
        }.items()
    ]  # fmt: skip
    constants += [
        helper.make_tensor("none", DOUBLE, [], [0.0]),
        helper.make_tensor("unit", DOUBLE, [], [1.0]),
        helper.make_tensor("safety", DOUBLE, [], [1 - 2.0**-16]),
        helper.make_tensor("off_on", FLOAT, [2], [0.0, 1.0]),
        helper.make_tensor("half", FLOAT, [], [0.5]),
        helper.make_tensor("small", FLOAT, [], [2.0**-10]),
        helper.make_tensor("zero_scalar", INT, [], [0]),
    ]
    created = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(*item) for item in inputs if item[0] != drop],
        [helper.make_tensor_value_info(*item) for item in outputs if item[0] != drop],
        constants,
    )
    model = helper.make_model(created, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    if stated != "":
        helper.set_model_props(model, {KEY: stated if isinstance(stated, str) else write_facts(stated)})
    data: bytes = model.SerializeToString()
    return data


def checked_file(data: bytes) -> bytes:
    """Return the file unchanged, after the library has checked it without error."""
    onnx.checker.check_model(onnx.load_model_from_string(data), full_check=True)
    return data


def _softmax(classes: int) -> list[NodeProto]:
    return [
        helper.make_node("LogSoftmax", ["scores"], ["logs"], axis=-1),
        helper.make_node("OneHot", ["labels", "depth", "off_on"], ["truth"], axis=-1),
        helper.make_node("Mul", ["logs", "truth"], ["picked"]),
        helper.make_node("ReduceSum", ["picked", "last"], ["negative"], keepdims=0),
        helper.make_node("Neg", ["negative"], ["losses"]),
        helper.make_node("ArgMax", ["scores"], ["predictions"], axis=-1, keepdims=0),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("Sub", ["shares", "truth"], ["slopes"]),
    ]


def _squared() -> list[NodeProto]:
    return [
        helper.make_node("Squeeze", ["scores", "last"], ["predictions"]),
        helper.make_node("Sub", ["predictions", "labels"], ["residuals"]),
        helper.make_node("Mul", ["residuals", "residuals"], ["squares"]),
        helper.make_node("Mul", ["squares", "half"], ["losses"]),
        helper.make_node("Unsqueeze", ["residuals", "last"], ["slopes"]),
    ]


def _clipped(factor: str) -> list[NodeProto]:
    """Return nodes that sum slopes ⊗ (x, 1) over examples; each term longer than the clip is scaled by this factor."""
    return [
        helper.make_node("Cast", ["slopes"], ["D"], to=DOUBLE),
        helper.make_node("Cast", ["x"], ["A"], to=DOUBLE),
        helper.make_node("ReduceSumSquare", ["D", "last"], ["DD"], keepdims=0),
        helper.make_node("ReduceSumSquare", ["A", "last"], ["AA"], keepdims=0),
        helper.make_node("Add", ["AA", "unit"], ["AA1"]),
        helper.make_node("Mul", ["DD", "AA1"], ["norms_squared"]),
        helper.make_node("IsInf", ["norms_squared"], ["infinite"]),
        helper.make_node("IsNaN", ["norms_squared"], ["nan"]),
        helper.make_node("Or", ["infinite", "nan"], ["bad"]),
        helper.make_node("Not", ["bad"], ["good"]),
        helper.make_node("And", ["good", "mask"], ["ok"]),
        helper.make_node("Mul", ["clip", "safety"], ["t"]),
        helper.make_node("Sqrt", ["norms_squared"], ["norms"]),
        helper.make_node("LessOrEqual", ["norms", "t"], ["short"]),
        helper.make_node("Div", ["t", "norms"], ["shortened"]),
        helper.make_node("Where", ["short", "unit", factor], ["factors"]),
        helper.make_node("Unsqueeze", ["ok", "last"], ["rows"]),
        helper.make_node("Unsqueeze", ["factors", "last"], ["row_factors"]),
        helper.make_node("Where", ["rows", "D", "none"], ["D0"]),
        helper.make_node("Where", ["rows", "A", "none"], ["A0"]),
        helper.make_node("Where", ["rows", "row_factors", "none"], ["c0"]),
        helper.make_node("Mul", ["D0", "c0"], ["cD"]),
        helper.make_node("Transpose", ["cD"], ["cDt"], perm=[1, 0]),
        helper.make_node("MatMul", ["cDt", "A0"], ["by_weight"]),
        helper.make_node("Reshape", ["by_weight", "flat_shape"], ["by_weight_flat"]),
        helper.make_node("ReduceSum", ["cD", "zero"], ["by_bias"], keepdims=0),
        helper.make_node("Concat", ["by_weight_flat", "by_bias"], ["gradient_sum"], axis=0),
    ]
