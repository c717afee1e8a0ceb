"""Look up kernels by name. A module is imported only when one of its kernels is requested, which saves memory."""

from collections.abc import Sequence
from importlib import import_module

from sottovoce.errors import ConfigError
from sottovoce.kernels.kernel import Kernel

_KERNELS = {
    "softmax": ("sottovoce.kernels.softmax", "Softmax"),
    "logistic": ("sottovoce.kernels.binary", "Logistic"),
    "pegasos": ("sottovoce.kernels.binary", "Hinge"),
    "ridge": ("sottovoce.kernels.binary", "Squared"),
    "mlp": ("sottovoce.kernels.mlp", "Perceptron"),
}
_GRAPHS = "sottovoce.kernels.onnx.loading"
REGRESSION = "ridge"
"""The only model in the table above that also supports regression."""


def kernel_named(
    name: str, features: int, classes: int, hidden: int, *, graphs: Sequence[str] = (), threads: int = 1
) -> Kernel:
    """Return the kernel with the given name.

    Args:
        name: `softmax`, `logistic`, `pegasos`, `ridge` or `mlp`; or a graph, which is either bundled, such as
            `mnist-cnn`, or the path of a file that ends in `.onnx`.
        features: the number of columns of x.
        classes: the number of classes; labels are 0 … classes - 1; 1 for a regression, with its target in the last
            column.
        hidden: the number of hidden units in `mlp`, at least 1; other models ignore it.
        graphs: `sha256:HEX` for each file that may be loaded in addition to the bundled graphs.
        threads: the number of threads that run a graph, 1 or 2.

    Raises:
        ConfigError: if there is no such kernel, the kernel does not support a regression or this data, its graph
            may not be loaded, or ONNX Runtime cannot run the graph on this machine.
    """
    if name not in _KERNELS:
        load_graph = import_module(_GRAPHS).graph_kernel
        graph_model: Kernel = load_graph(name, features, classes, graphs, threads, other_models=_KERNELS)
        return graph_model
    if classes == 1:
        return _regression(name, features)
    module, kind = _KERNELS[name]
    sizes = (features, classes, hidden) if name == "mlp" else (features, classes)
    kernel: Kernel = getattr(import_module(module), kind)(*sizes)
    return kernel


def _regression(name: str, features: int) -> Kernel:
    if name != REGRESSION:
        raise ConfigError(
            f"learner.model: data.classes = 1 selects regression, which {name} does not support: choose {REGRESSION}"
        )
    if features < 2:
        raise ConfigError(
            "data.features: a regression needs a target in the last column and at least one feature column: store both"
        )
    from sottovoce.kernels.least_squares import LeastSquares

    return LeastSquares(features)
