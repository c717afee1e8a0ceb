"""Sottovoce trains one model across many devices, peer to peer and under differential privacy.

The public names are defined in sottovoce.api, which is imported when one of them is first used.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """Look up a public name in sottovoce.api; for `__all__`, return the list of all public names."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'sottovoce' has no attribute '{name}'")
    api = import_module("sottovoce.api")
    if name == "__all__":
        return [*api.__all__, "__version__"]
    if name not in api.__all__:
        raise AttributeError(f"module 'sottovoce' has no attribute '{name}'")
    return getattr(api, name)


def __dir__() -> list[str]:
    return [*import_module("sottovoce.api").__all__, "__version__"]
