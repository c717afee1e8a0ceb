"""Export of a public model: as an ordinary ONNX model, or as the coefficients of a linear model.

Everything here is computed from the model that the device has published, and from its declaration.
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
from sottovoce_lab.models.prelude import Bounds, Steps, has_prelude, prelude
from sottovoce_lab.models.tape import Tape, Value

KEY = "sottovoce.export"
"""Metadata key of an exported file's description, which is JSON."""

LINEAR = ("softmax", "logistic", "pegasos", "ridge")

_ESTIMATORS = {"softmax": "LogisticRegression", "logistic": "LogisticRegression", "pegasos": "LinearSVC"}

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PublicModel:
    """Public model and its origin.

    Attributes:
        name: `softmax`, `logistic`, `pegasos`, `ridge`, `mlp`, or the name of a graph.
        parameters: parameters of the model, float64[P].
        columns: number d of features after the transform.
        classes: number of classes; labels are 0 … classes - 1; 1 for a regression.
        hidden: number of units of the hidden layer of `mlp`.
        declaration: declaration of a graph.
    """

    name: str
    parameters: Floats
    columns: int
    classes: int
    hidden: int = 0
    declaration: Declaration | None = None


@dataclass(frozen=True, slots=True)
class Linear:
    """Linear model: scores are xᵀW.

    Attributes:
        weights: float64[k, d], one row per score.
        classes: see PublicModel; with two classes and one row, a score above 0 is class 1.
    """

    weights: Floats
    classes: int


def exported(model: PublicModel, steps: Steps, bounds: Bounds | None, facts: dict[str, Any]) -> ModelProto:
    """Export an ordinary model: `features` float32[B, d] to `scores` float32[B, k] and `predictions`.

    `predictions` are int64[B], labels, or float32[B], values of a regression. The file includes the transform if it can
    be written as a graph and its ranges are known; then `features` are as measured.

    Args:
        model: the model to export.
        steps: steps of the declared transform.
        bounds: the declared ranges; None without any.
        facts: JSON-ready facts for the metadata; `transform_included` is added.

    Raises:
        ConfigError: if the model does not predict, or its parameters do not fit.
    """
    core = _core(model)
    included = facts["ranges"] != "unknown" and has_prelude(steps)
    whole = (
        _joined(_transform_model(facts["features"], steps, bounds), core) if included and (steps or bounds) else core
    )
    meaning = "as they are measured" if included else "after the transform"
    described = {**facts, "transform_included": included, "input": f"features {meaning}"}
    helper.set_model_props(whole, {KEY: json.dumps(described, ensure_ascii=False)})
    checker.check_model(whole, full_check=True)
    return whole


def coefficients(model: PublicModel) -> dict[str, Any]:
    """Return the attributes of the scikit-learn estimator with equal predictions, JSON-ready.

    Raises:
        ConfigError: if the model is not linear.
    """
    if model.name not in LINEAR:
        raise ConfigError(f"{model.name}: is not a linear model and has no coefficients: export it with --format onnx")
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


def _core(model: PublicModel) -> ModelProto:
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
            f"{model.name}: makes no predictions, so it cannot be exported: it is a statistic of the fleet"
        )
    predicted = predictions(tape, scores, model.classes, width)
    kind = tape.real if model.classes == 1 else np.int64
    return tape.model([("scores", scores, tape.real, ["B", width]), ("predictions", predicted, kind, ["B"])])


def _linear(model: PublicModel) -> Linear:
    """Return the weights, one row per score, from a flat vector."""
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
    given = tape.input("features", tape.real, ["B", features])
    return tape.model([("transformed", prelude(tape, given, steps, bounds, features), tape.real, ["B", "columns"])])


def _joined(before: ModelProto, core: ModelProto) -> ModelProto:
    """Join two models in sequence, with the first model's input."""
    whole = compose.merge_models(
        before, core, io_map=[("transformed", "features")], prefix1="transform.", producer_name="sottovoce"
    )
    del whole.opset_import[1:]
    old, new = "transform.features", "features"
    for node in whole.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
    whole.graph.input[0].name = new
    return whole


def _size_mismatch(model: PublicModel) -> ConfigError:
    return ConfigError(
        f"{model.name}: {model.parameters.size} parameters do not fit {model.columns} features and {model.classes} "
        "classes: give the configuration that the agent runs with"
    )
