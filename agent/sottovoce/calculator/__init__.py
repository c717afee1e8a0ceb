"""Calculator for noise and budgets: the least noise for a budget, and the joint cost of releases.

It asks the accountant, uses only public values, and is for people who plan: no vault uses it. Its names are imported on
first use, and NumPy is the only dependency that they load.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sottovoce.calculator.calibration import Calibrated as Calibrated, calibrate as calibrate
    from sottovoce.calculator.composition import Composed as Composed
    from sottovoce.calculator.release_notation import (
        DiscreteGaussian as DiscreteGaussian,
        DiscreteLaplace as DiscreteLaplace,
        Gaussian as Gaussian,
        Laplace as Laplace,
        Pure as Pure,
        compose as compose,
    )

_MODULES = {
    **dict.fromkeys(("Calibrated", "calibrate"), "calibration"),
    "Composed": "composition",
    **dict.fromkeys(
        ("DiscreteGaussian", "DiscreteLaplace", "Gaussian", "Laplace", "Pure", "compose"), "release_notation"
    ),
}

__all__ = tuple(sorted(_MODULES))


def __getattr__(name: str) -> Any:
    """Import one of the calculator's names on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'sottovoce.calculator' has no attribute '{name}'")
    return getattr(import_module(f"sottovoce.calculator.{_MODULES[name]}"), name)
