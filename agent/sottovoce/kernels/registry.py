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


def kernel_named(name: str, features: int, classes: int, hidden: int) -> Kernel:
    """The kernel of that name.

    Args:
        name: `softmax`, `logistic`, `pegasos`, `ridge` or `mlp`.
        features: columns of x.
        classes: labels are 0 … classes - 1.
        hidden: units of the hidden layer of `mlp`, at least 1; of no meaning to the others.

    Raises:
        ConfigError: there is no such kernel.
    """
    if name not in _KERNELS:
        raise ConfigError(f"no model called {name!r} is trained by its gradient: choose one of {', '.join(_KERNELS)}")
    module, kind = _KERNELS[name]
    sizes = (features, classes, hidden) if name == "mlp" else (features, classes)
    kernel: Kernel = getattr(import_module(module), kind)(*sizes)
    return kernel
