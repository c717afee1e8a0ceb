"""Simulate fleets, run testbeds, reproduce the papers' figures and audit releases. Devices never run this package.

The public names are those in sottovoce_lab.api, which is imported on first access to one of them.
"""

from importlib import import_module
from typing import Any

_OTHER_LIBRARIES = {
    "GossipSimulator": "simulate",
    "run_simulation": "simulate",
    "start_simulation": "simulate",
    "ClientApp": "simulate",
    "ServerApp": "simulate",
    "PrivacyEngine": "simulate or FleetClassifier",
}
"""What has the purpose of a name from gossipy, Flower or Opacus."""


def __getattr__(name: str) -> Any:
    """Return a public object from sottovoce_lab.api, or the list of all public names for `__all__`."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'sottovoce_lab' has no attribute '{name}'")
    api = import_module("sottovoce_lab.api")
    if name == "__all__":
        return api.__all__
    if name not in api.__all__:
        raise AttributeError(f"module 'sottovoce_lab' has no attribute '{name}'{_suggestion(name, api.__all__)}")
    return getattr(api, name)


def _suggestion(name: str, known: list[str]) -> str:
    import sottovoce
    from sottovoce.suggestions import suggest_name

    if name in dir(sottovoce):
        return f"; use sottovoce.{name}"
    other = _OTHER_LIBRARIES.get(name) or suggest_name(name, known)
    return "" if other is None else f"; use sottovoce_lab.{other}"


def __dir__() -> list[str]:
    return list(import_module("sottovoce_lab.api").__all__)
