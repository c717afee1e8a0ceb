"""Simulate fleets, run testbeds, reproduce the papers' figures and audit releases. Devices never run this package.

The public names are those in sottovoce_lab.api, which is imported on first access to one of them.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return a public object from sottovoce_lab.api, or the list of all public names for `__all__`."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'sottovoce_lab' has no attribute '{name}'")
    api = import_module("sottovoce_lab.api")
    if name == "__all__":
        return api.__all__
    if name not in api.__all__:
        raise AttributeError(f"module 'sottovoce_lab' has no attribute '{name}'")
    return getattr(api, name)


def __dir__() -> list[str]:
    return list(import_module("sottovoce_lab.api").__all__)
