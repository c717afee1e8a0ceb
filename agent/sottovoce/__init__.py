"""Sottovoce trains one model across many devices, peer to peer and under differential privacy.

The public names are defined in sottovoce.api, which is imported when one of them is first used.
"""

from importlib import import_module

__version__ = "0.2.0"

_LAB_NAMES = ("simulate", "audit", "FleetClassifier", "FleetRegressor", "Run", "Runs")
_OTHER_LIBRARIES = {
    "PrivacyEngine": "build_vault or sottovoce_lab.simulate",
    "get_noise_multiplier": "calibrate",
    "RDPAccountant": "compose",
    "GaussianDpEvent": "Gaussian",
    "LaplaceDpEvent": "Laplace",
    "ComposedDpEvent": "compose",
    "PoissonSampledDpEvent": "Gaussian, with rate=",
    "SelfComposedDpEvent": "Gaussian or Laplace, with count=",
    "calibrate_dp_mechanism": "calibrate",
    "NumPyClient": "Agent, or sottovoce_lab.simulate",
}
"""What has the purpose of a name from Opacus, dp-accounting or Flower."""


def __getattr__(name: str) -> object:
    """Look up a public name in sottovoce.api; for `__all__`, return the list of all public names."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'sottovoce' has no attribute '{name}'")
    api = import_module("sottovoce.api")
    if name == "__all__":
        return [*api.__all__, "__version__"]
    if name not in api.__all__:
        raise AttributeError(f"module 'sottovoce' has no attribute '{name}'{_suggestion(name, api.__all__)}")
    return getattr(api, name)


def _suggestion(name: str, known: list[str]) -> str:
    if name in _LAB_NAMES:
        return f"; use sottovoce_lab.{name}"
    from sottovoce.suggestions import suggest_name

    other = _OTHER_LIBRARIES.get(name) or suggest_name(name, known)
    return "" if other is None else f"; use sottovoce.{other}"


def __dir__() -> list[str]:
    return [*import_module("sottovoce.api").__all__, "__version__"]
