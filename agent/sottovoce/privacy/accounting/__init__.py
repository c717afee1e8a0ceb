"""Privacy accountant, which computes the cost of single releases and of their composition.

The accountant uses only public values and never reads a record. `calibrate` and `compose` are imported on first use
because a device needs neither. NumPy is the only dependency that they load.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sottovoce.privacy.accounting.calibration import Calibrated as Calibrated
    from sottovoce.privacy.accounting.calibration import calibrate
    from sottovoce.privacy.accounting.composition import Composed as Composed
    from sottovoce.privacy.accounting.release_notation import compose as compose

_EXPORTS = {
    "Calibrated": ("calibration", "Calibrated"),
    "Composed": ("composition", "Composed"),
    "calibrate": ("calibration", "calibrate"),
    "compose": ("release_notation", "compose"),
}

__all__ = ["Calibrated", "Composed", "calibrate", "compose"]


def __getattr__(name: str) -> Any:
    """Import one of the accountant's public names on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'sottovoce.privacy.accounting' has no attribute '{name}'")
    module, attribute = _EXPORTS[name]
    return getattr(import_module(f"sottovoce.privacy.accounting.{module}"), attribute)
