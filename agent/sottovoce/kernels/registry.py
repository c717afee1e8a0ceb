"""Kernel lookup by name. A module is imported only when one of its kernels is requested, to save a device's memory."""

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
"""The only model that can also predict numbers, as a regression."""


def kernel_named(
    name: str, features: int, classes: int, hidden: int, *, graphs: Sequence[str] = (), threads: int = 1
) -> Kernel:
    """Return the kernel with the given name.

    Args:
        name: `softmax`, `logistic`, `pegasos`, `ridge` or `mlp`; or a graph, either one in the package, such as
            `mnist-cnn`, or the path of a file that ends in `.onnx`.
        features: number of columns of x.
        classes: number of classes; labels are 0 … classes - 1; 1 for a regression, whose target is the last column.
        hidden: number of units in the hidden layer of `mlp`, at least 1; ignored by the other models.
        graphs: `sha256:HEX` of each file that may be loaded in addition to the graphs in the package.
        threads: number of threads that run a graph, 1 or 2.

    Raises:
        ConfigError: if there is no such kernel, if it does not support regression or this data, if its graph may not be
            loaded, or if ONNX Runtime cannot run the graph on this machine.
    """
    if name not in _KERNELS:
        made: Kernel = import_module(_GRAPHS).graph_kernel(name, features, classes, graphs, threads, others=_KERNELS)
        return made
    if classes == 1:
        return _regression(name, features)
    module, kind = _KERNELS[name]
    sizes = (features, classes, hidden) if name == "mlp" else (features, classes)
    kernel: Kernel = getattr(import_module(module), kind)(*sizes)
    return kernel


def _regression(name: str, features: int) -> Kernel:
    if name != REGRESSION:
        raise ConfigError(
            f"learner.model: data.classes = 1 is a regression, which {name} does not support: choose {REGRESSION}"
        )
    if features < 2:
        raise ConfigError(
            "data.features: a regression needs a target in the last column and one other column: store both"
        )
    from sottovoce.kernels.least_squares import LeastSquares

    return LeastSquares(features)
