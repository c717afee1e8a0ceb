"""Names of the models that this package can learn, and which of them are graphs."""

GRAPH_MODELS = ("mnist-cnn", "mnist-mlp", "cifar-cnn", "resnet-18", "meter-tcn", "har-cnn")
"""Models whose graphs come with this package."""

GRADIENT_MODELS = ("softmax", "logistic", "pegasos", "ridge", "mlp", *GRAPH_MODELS)
"""Models of gradient algorithms, which can also train the model in any `.onnx` file."""

GRAPH_SUFFIX = ".onnx"
GRAPH_SHARE = 0.3
"""Share of a learner's step size for networks of several layers, which diverge at the full one (explanation/rounds)."""

GRAPH_TRANSFORM = "standard"
"""Default transform of records for such a model."""

REGRESSION_MODEL = "ridge"
"""The model without a graph that predicts a number, where `data.classes` is 1."""


def has_graph(model: str) -> bool:
    """Return whether a model with this name is a graph: one in this package, or a file."""
    return model in GRAPH_MODELS or model.endswith(GRAPH_SUFFIX)
