"""Import ONNX Runtime with its telemetry disabled, and only if a device has a model that needs it.

Since version 1.29, its builds write a device identifier to the home directory and report usage to the vendor, unless
the environment disables this before the module is first imported.
"""

import os
from importlib import import_module
from typing import Any

from sottovoce.errors import ConfigError

MIN_VERSION = (1, 24)
_INSTALL = "install sottovoce[onnx] for this device, or choose a model without a graph, such as mlp"


def onnxruntime() -> Any:
    """Import and return the `onnxruntime` module. All other code must call this function instead of importing it.

    Raises:
        ConfigError: if the module is missing, cannot be loaded, or is too old.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        module = import_module("onnxruntime")
        version = str(module.__version__)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"learner.model: ONNX Runtime is missing or cannot be loaded ({error}): {_INSTALL}"
        ) from error
    if _numbers(version) < MIN_VERSION:
        minimum = ".".join(map(str, MIN_VERSION))
        raise ConfigError(f"learner.model: ONNX Runtime {version} is older than {minimum}: {_INSTALL}")
    module.disable_telemetry_events()
    return module


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first two components of a version as numbers, with 0 for a component that is not a number."""
    components = version.split(".")[:2]
    return tuple(int(word) if word.isdecimal() else 0 for word in components)
