"""Fleets on a workstation: simulations, testbeds, figures of the papers and audits. Devices never run this package.

The public names are those of sottovoce_lab.library, which is imported when a public name is first accessed.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return a public object of sottovoce_lab.library, or the list of all public names for `__all__`."""
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
