"""Export a public model as an ordinary ONNX model or, if it is linear, as coefficients.

Everything here is computed from the device's published model and its declaration.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, checker, compose, helper
from sottovoce.errors import ConfigError

from sottovoce_lab.models.build import build_forward
from sottovoce_lab.models.declaration import Declaration
from sottovoce_lab.models.losses import predictions
from sottovoce_lab.models.prelude import Bounds, Steps, has_prelude, record_prelude
from sottovoce_lab.models.tape import Tape, Value

KEY = "sottovoce.export"
"""Metadata key for the JSON description in an exported file."""

LINEAR = ("softmax", "logistic", "pegasos", "ridge")

_ESTIMATORS = {"softmax": "LogisticRegression", "logistic": "LogisticRegression", "pegasos": "LinearSVC"}

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PublicModel:
    """A public model with everything needed to interpret its parameters.

    Attributes:
        name: `softmax`, `logistic`, `pegasos`, `ridge`, `mlp`, or the name of a graph.
        parameters: the model's parameters, float64[P].
        columns: the number d of features after the transform.
        classes: the number of classes, with labels 0 … classes - 1; 1 for a regression.
        hidden: the number of hidden units in `mlp`.
        declaration: the graph's declaration; None for other models.
    """

    name: str
    parameters: Floats
    columns: int
    classes: int
    hidden: int = 0
    declaration: Declaration | None = None


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear model, in which each score is the inner product of a weight row and the features.

    Attributes:
        weights: one row per score, float64[k, d].
        classes: see PublicModel; with two classes and one row, a score above 0 means class 1.
    """

    weights: Floats
    classes: int


def export_model(model: PublicModel, steps: Steps, bounds: Bounds | None, facts: dict[str, Any]) -> ModelProto:
    """Return an ordinary ONNX model that maps `features` float32[B, d] to `scores` float32[B, k] and `predictions`.

    `predictions` are labels, int64[B], or in a regression values, float32[B]. If the transform can be implemented as a
    graph and its ranges are known, the model includes the transform, and `features` are the raw features.

    Args:
        model: the model to export.
        steps: the steps in the declared transform.
        bounds: the declared ranges; None if no ranges are declared.
        facts: JSON-ready facts for the metadata, to which `transform_included` and `input` are added.

    Raises:
        ConfigError: if the model does not make predictions, or its parameters do not fit.
    """
    core = _core_model(model)
    included = facts["ranges"] != "unknown" and has_prelude(steps)
    onnx_model = (
        _join(_transform_model(facts["features"], steps, bounds), core) if included and (steps or bounds) else core
    )
    input_form = "as they are measured" if included else "after the transform"
    metadata = {**facts, "transform_included": included, "input": f"features {input_form}"}
    helper.set_model_props(onnx_model, {KEY: json.dumps(metadata, ensure_ascii=False)})
    checker.check_model(onnx_model, full_check=True)
    return onnx_model


def coefficients(model: PublicModel) -> dict[str, Any]:
    """Return the JSON-ready attributes of a scikit-learn estimator that makes identical predictions.

    Raises:
        ConfigError: if the model is not linear.
    """
    if model.name not in LINEAR:
        raise ConfigError(f"{model.name} is not a linear model and has no coefficients: export it with --format onnx")
    linear = _linear(model)
    if linear.classes == 1:
        return {"estimator": "Ridge", "coef_": linear.weights[0].tolist(), "intercept_": 0.0}
    rows = linear.weights
    if linear.classes == 2 and len(rows) == 2:
        rows = rows[1:] - rows[:1]
    return {
        "estimator": _ESTIMATORS.get(model.name, "LinearSVC"),
        "coef_": rows.tolist(),
        "intercept_": [0.0] * len(rows),
        "classes_": [*range(linear.classes)],
    }


def _core_model(model: PublicModel) -> ModelProto:
    if model.declaration is not None:
        return build_forward(model.declaration, model.parameters)
    tape = Tape()
    features = tape.input("features", tape.real, ["B", model.columns])
    if model.name == "mlp":
        scores, width = _perceptron(tape, features, model), model.classes
    elif model.name in LINEAR:
        linear = _linear(model)
        width = len(linear.weights)
        scores = tape.op("Gemm", features, tape.constant(linear.weights, name="weight"), transB=1)
    else:
        raise ConfigError(
            f"{model.name} cannot be exported, because it makes no predictions: it is a statistic of the fleet"
        )
    predicted = predictions(tape, scores, model.classes, width)
    kind = tape.real if model.classes == 1 else np.int64
    return tape.model([("scores", scores, tape.real, ["B", width]), ("predictions", predicted, kind, ["B"])])


def _linear(model: PublicModel) -> Linear:
    """Reshape the model's flat parameter vector into weights with one row per score."""
    d, classes = model.columns, model.classes
    shape = (d, classes) if model.name == "softmax" else (1 if classes <= 2 else classes, d)
    if model.parameters.size != shape[0] * shape[1]:
        raise _size_mismatch(model)
    weights = model.parameters.reshape(shape)
    return Linear(weights.T if model.name == "softmax" else weights, classes)


def _perceptron(tape: Tape, features: Value, model: PublicModel) -> Value:
    d, h, classes = model.columns, model.hidden, model.classes
    if model.parameters.size != h * (d + 1) + classes * (h + 1):
        raise _size_mismatch(model)
    U, a, V, b = np.split(model.parameters, np.cumsum([h * d, h, classes * h]))
    weights = {"weight1": U.reshape(h, d), "bias1": a, "weight2": V.reshape(classes, h), "bias2": b}
    first, shift, second, last = (tape.constant(value, name=name) for name, value in weights.items())
    units = tape.op("Tanh", tape.op("Gemm", features, first, shift, transB=1))
    return tape.op("Gemm", units, second, last, transB=1)


def _transform_model(features: int, steps: Steps, bounds: Bounds | None) -> ModelProto:
    tape = Tape()
    raw = tape.input("features", tape.real, ["B", features])
    return tape.model(
        [("transformed", record_prelude(tape, raw, steps, bounds, features), tape.real, ["B", "columns"])]
    )


def _join(transform: ModelProto, core: ModelProto) -> ModelProto:
    """Merge two models: the second processes the first one's output, and the input is the first one's."""
    merged = compose.merge_models(
        transform, core, io_map=[("transformed", "features")], prefix1="transform.", producer_name="sottovoce"
    )
    del merged.opset_import[1:]
    old_name, new_name = "transform.features", "features"
    for node in merged.graph.node:
        node.input[:] = [new_name if name == old_name else name for name in node.input]
    merged.graph.input[0].name = new_name
    return merged


def _size_mismatch(model: PublicModel) -> ConfigError:
    return ConfigError(
        f"{model.name}: {model.parameters.size} parameters do not fit {model.columns} features and {model.classes} "
        "classes: specify the configuration with which the agent runs"
    )
