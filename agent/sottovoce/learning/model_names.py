"""Names of the models that this package can train, and which of them are graphs."""

GRAPH_MODELS = ("mnist-cnn", "mnist-mlp", "cifar-cnn", "resnet-18", "meter-tcn", "har-cnn")
"""Built-in models that are defined by a graph."""

GRADIENT_MODELS = ("softmax", "logistic", "pegasos", "ridge", "mlp", *GRAPH_MODELS)
"""Models that gradient algorithms can train, in addition to any `.onnx` file."""

GRAPH_SUFFIX = ".onnx"
GRAPH_SHARE = 0.3
"""Step-size factor for multi-layer networks, which diverge at the full step size (explanation/rounds)."""

GRAPH_TRANSFORM = "standard"
"""Default record transform for a graph model."""

REGRESSION_MODEL = "ridge"
"""Name of the linear regression model (`data.classes` = 1)."""


def has_graph(model: str) -> bool:
    """Return whether the model with this name is a graph, either from this package or from a file."""
    return model in GRAPH_MODELS or model.endswith(GRAPH_SUFFIX)


def has_hidden_layers(model: str) -> bool:
    """Return whether the model with this name is a multi-layer network."""
    return model == "mlp" or has_graph(model)
