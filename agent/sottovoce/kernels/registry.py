"""Kernels by name. A module is imported when a kernel of it is asked for, so that a device holds no other in memory."""

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
REGRESSION = "ridge"
"""The one model that also predicts numbers."""


def kernel_named(name: str, features: int, classes: int, hidden: int) -> Kernel:
    """The kernel of that name.

    Args:
        name: `softmax`, `logistic`, `pegasos`, `ridge` or `mlp`.
        features: columns of x.
        classes: labels are 0 … classes - 1; 1 for a regression, whose target is the last column.
        hidden: units of the hidden layer of `mlp`, at least 1; of no meaning to the others.

    Raises:
        ConfigError: there is no such kernel, or it is none of a regression.
    """
    if name not in _KERNELS:
        raise ConfigError(f"no model called {name!r} is trained by its gradient: choose one of {', '.join(_KERNELS)}")
    if classes == 1:
        return _regression(name, features)
    module, kind = _KERNELS[name]
    sizes = (features, classes, hidden) if name == "mlp" else (features, classes)
    kernel: Kernel = getattr(import_module(module), kind)(*sizes)
    return kernel


def _regression(name: str, features: int) -> Kernel:
    if name != REGRESSION:
        raise ConfigError(
            f"learner.model: data.classes = 1 is a regression, which {name} is not for: choose {REGRESSION}"
        )
    if features < 2:
        raise ConfigError("data.features: a regression needs its target, the last column, and one more: store both")
    from sottovoce.kernels.least_squares import LeastSquares

    return LeastSquares(features)
