"""Simulate fleets, run testbeds, reproduce the papers' figures and audit releases. Devices never run this package.

The public names are those in sottovoce_lab.library, which is imported on first access to one of them.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return a public object from sottovoce_lab.library, or the list of all public names for `__all__`."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'sottovoce_lab' has no attribute '{name}'")
    library = import_module("sottovoce_lab.library")
    if name == "__all__":
        return library.__all__
    if name not in library.__all__:
        raise AttributeError(f"module 'sottovoce_lab' has no attribute '{name}'")
    return getattr(library, name)


def __dir__() -> list[str]:
    return list(import_module("sottovoce_lab.library").__all__)
