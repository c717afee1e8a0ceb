"""Models by name: those that this package can learn, and those that are graphs."""

GRAPH_MODELS = ("mnist-cnn", "mnist-mlp", "cifar-cnn", "resnet-18", "meter-tcn", "har-cnn")
"""Whose graphs this package holds."""

GRADIENT_MODELS = ("softmax", "logistic", "pegasos", "ridge", "mlp", *GRAPH_MODELS)
"""Models of gradient algorithms, which also train the model of any file that ends in `.onnx`."""

GRAPH_SUFFIX = ".onnx"
GRAPH_SHARE = 0.3
"""Share of a learner's step size for networks of several layers; at all of it they diverge (explanation/rounds)."""

GRAPH_TRANSFORM = "standard"
"""Default transform of records for such a model."""

REGRESSION_MODEL = "ridge"
"""The one without a graph that also predicts a number, where `data.classes` is 1."""


def has_graph(model: str) -> bool:
    """Whether a model of this name is a graph: of this package, or a file."""
    return model in GRAPH_MODELS or model.endswith(GRAPH_SUFFIX)
