"""Exported models: they predict what the kernel predicts, in ONNX Runtime and in scikit-learn."""

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import apply, width
from sottovoce.data.bounds import Bounds
from sottovoce.data.transform import parse_steps
from sottovoce.errors import ConfigError
from sottovoce.kernels import kernel_named
from sottovoce.kernels.least_squares import LeastSquares
from sottovoce_lab.models.build import build_graph
from sottovoce_lab.models.checks import forward_bytes
from sottovoce_lab.models.declaration import parse_declaration
from sottovoce_lab.models.export import KEY, PublicModel, coefficients, export_model
from sottovoce_lab.models.inference import Inference

FEATURES = 7
BOUNDS: Bounds = (np.zeros(FEATURES), np.array([5.0] * (FEATURES - 1) + [0.0]))
LINEAR = ["softmax", "logistic", "pegasos", "ridge"]


def rows(count: int = 60) -> NDArray[np.float64]:
    """Return float32 records, some outside the ranges and one all zeros."""
    result = np.random.default_rng(0).uniform(-1, 6, (count, FEATURES)).astype(np.float32).astype(np.float64)
    result[0] = 0
    return result


def facts(ranges: str = "declared", features: int = FEATURES) -> dict[str, Any]:
    return {
        "ranges": ranges,
        "features": features,
        "classes": 3,
        "transform": "some",
        "privacy": {"epsilon": 2.0},
    }


def parameters(size: int) -> NDArray[np.float64]:
    return np.random.default_rng(1).standard_normal(size)


@pytest.mark.parametrize("bounds", [BOUNDS, None], ids=["ranges", "no ranges"])
@pytest.mark.parametrize("transform", ["centred-unit", "standard", "log(2),subtract(1)", "none"])
@pytest.mark.parametrize("name, classes", [("softmax", 3), ("pegasos", 2), ("ridge", 4), ("mlp", 3)])
def test_an_onnx_model_accepts_measured_records(name: str, classes: int, transform: str, bounds: Bounds | None) -> None:
    d = width(transform, FEATURES)
    kernel = kernel_named(name, d, classes, 5)
    chosen = parameters(kernel.size)
    model = export_model(PublicModel(name, chosen, d, classes, 5), parse_steps(transform), bounds, facts())
    inference = Inference(forward_bytes(model.SerializeToString(), "file"), "file")
    expected = kernel.predict(chosen[np.newaxis], apply(transform, rows(), bounds))[0]
    assert inference.predict(rows()).tolist() == expected.tolist()
    assert inference.facts["transform_included"] is True
    assert [value.name for value in model.graph.input] == ["features"]


@pytest.mark.parametrize(
    "transform", ["squash(1),hog(3),centre,unit,bias(0.3)", "hog(2)", "squash(1),scatter(1),unit", "harmonics(3),unit"]
)
def test_an_onnx_model_contains_image_and_day_features(transform: str) -> None:
    images, bounds = np.random.default_rng(4).uniform(0, 255, (40, 36)), (np.zeros(36), np.full(36, 255.0))
    d = width(transform, 36)
    kernel = kernel_named("softmax", d, 4, 1)
    chosen = parameters(kernel.size)
    model = export_model(PublicModel("softmax", chosen, d, 4), parse_steps(transform), bounds, facts("declared", 36))
    inference = Inference(forward_bytes(model.SerializeToString(), "file"), "file")
    expected = kernel.predict(chosen[np.newaxis], apply(transform, images, bounds))[0]
    assert inference.facts["transform_included"] is True
    assert inference.predict(images).tolist() == expected.tolist()


@pytest.mark.parametrize("transform, ranges", [("centred-unit", "unknown"), ("dct(2)", "declared")])
def test_a_transform_outside_the_graph_is_reported(transform: str, ranges: str) -> None:
    d = width(transform, 9)
    kernel = kernel_named("softmax", d, 3, 1)
    chosen = parameters(kernel.size)
    model = export_model(PublicModel("softmax", chosen, d, 3), parse_steps(transform), None, facts(ranges, 9))
    document = json.loads(next(entry.value for entry in model.metadata_props if entry.key == KEY))
    assert (document["transform_included"], document["input"]) == (False, "features after the transform")
    assert document["privacy"] == {"epsilon": 2.0}
    observed = apply(transform, np.random.default_rng(2).uniform(0, 1, (9, 9)), None)
    inference = Inference(forward_bytes(model.SerializeToString(), "file"), "file")
    assert inference.predict(observed).tolist() == kernel.predict(chosen[np.newaxis], observed)[0].tolist()


def test_a_regression_is_exported() -> None:
    kernel = LeastSquares(FEATURES + 1)
    chosen, x = parameters(FEATURES), rows()
    model = export_model(PublicModel("ridge", chosen, FEATURES, 1), (), None, facts())
    result = Inference(forward_bytes(model.SerializeToString(), "file"), "file").predict(x)
    expected = kernel.values(chosen[np.newaxis], np.hstack([x, np.zeros((len(x), 1))]))[0]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_a_graph_model_is_exported() -> None:
    text = """
        name = "small"
        input = [7]
        classes = 2
        loss = "binary"
        layers = [{kind = "dense", units = 3}, {kind = "tanh"}, {kind = "dense", units = 1}]
    """
    declaration = parse_declaration(text, "text")
    chosen, x = parameters(28), rows()
    model = PublicModel("small", chosen, FEATURES, 2, declaration=declaration)
    inference = Inference(forward_bytes(export_model(model, (), BOUNDS, facts()).SerializeToString(), "file"), "file")
    U, a, v, b = np.split(chosen, [21, 24, 27])
    scores = np.tanh(np.clip(x, *BOUNDS) @ U.reshape(3, 7).T + a) @ v + b
    assert inference.predict(x).tolist() == (scores > 0).astype(int).tolist()
    assert len(build_graph(declaration).graph.output) == 3


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", LINEAR)
def test_scikit_learn_predicts_the_same_labels(name: str, classes: int) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model", reason="comes with sottovoce[demo]")
    svm = pytest.importorskip("sklearn.svm", reason="comes with sottovoce[demo]")
    kernel = kernel_named(name, FEATURES, classes, 1)
    chosen, x = parameters(kernel.size), rows()
    document = json.loads(json.dumps(coefficients(PublicModel(name, chosen, FEATURES, classes))))
    estimator: Any = (svm if document["estimator"] == "LinearSVC" else linear_model).__dict__[document["estimator"]]()
    for key in ("coef_", "intercept_", "classes_"):
        setattr(estimator, key, np.array(document[key]))
    assert estimator.predict(x).tolist() == kernel.predict(chosen[np.newaxis], x)[0].tolist()


def test_scikit_learn_predicts_the_same_values() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model", reason="comes with sottovoce[demo]")
    chosen, x = parameters(FEATURES), rows()
    document = coefficients(PublicModel("ridge", chosen, FEATURES, 1))
    estimator = linear_model.__dict__[document["estimator"]]()
    estimator.coef_, estimator.intercept_ = np.array(document["coef_"]), document["intercept_"]
    np.testing.assert_allclose(estimator.predict(x), x @ chosen)


def test_an_impossible_export_states_the_reason() -> None:
    with pytest.raises(ConfigError, match="--format onnx"):
        coefficients(PublicModel("mlp", parameters(28), FEATURES, 2, 3))
    with pytest.raises(ConfigError, match=r"mean.*predictions"):
        export_model(PublicModel("mean", parameters(7), FEATURES, 2), (), None, facts())
    with pytest.raises(ConfigError, match=r"5 parameters.*7 features.*3 classes"):
        export_model(PublicModel("softmax", parameters(5), FEATURES, 3), (), None, facts())
    with pytest.raises(ConfigError, match=r"5 parameters.*7 features.*3 classes"):
        export_model(PublicModel("mlp", parameters(5), FEATURES, 3, 4), (), None, facts())


@pytest.mark.parametrize("description", ["", "[]", "{}", "[" * 100_000, '{"transform": 3}'])
def test_a_file_s_own_description_is_not_trusted(description: str) -> None:
    model = export_model(PublicModel("softmax", parameters(21), FEATURES, 3), (), None, facts())
    model.metadata_props[0].value = description
    with pytest.raises(ConfigError, match="description"):
        Inference(forward_bytes(model.SerializeToString(), "file"), "file")


def test_records_of_another_size_are_refused() -> None:
    model = export_model(PublicModel("softmax", parameters(21), FEATURES, 3), (), None, facts())
    inference = Inference(forward_bytes(model.SerializeToString(), "file"), "file")
    with pytest.raises(ConfigError, match="3 features"):
        inference.predict(np.zeros((2, 3)))
