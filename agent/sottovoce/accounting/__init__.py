"""Accountant: the cost of releases and of their composition. Public arithmetic that never reads a record.

`calibrate` and `compose` are imported on first use, since a device needs neither. They load NumPy and no other
dependency.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sottovoce.accounting.calibration import Calibrated as Calibrated
    from sottovoce.accounting.calibration import calibrated as calibrate
    from sottovoce.accounting.composition import Composed as Composed
    from sottovoce.accounting.release_notation import compose as compose

_PLACES = {
    "Calibrated": ("calibration", "Calibrated"),
    "Composed": ("composition", "Composed"),
    "calibrate": ("calibration", "calibrated"),
    "compose": ("release_notation", "compose"),
}

__all__ = ["Calibrated", "Composed", "calibrate", "compose"]


def __getattr__(name: str) -> Any:
    """Import a public name of the accountant on first use."""
    if name not in _PLACES:
        raise AttributeError(f"module 'sottovoce.accounting' has no attribute '{name}'")
    module, own = _PLACES[name]
    return getattr(import_module(f"sottovoce.accounting.{module}"), own)
