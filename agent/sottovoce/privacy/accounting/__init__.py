"""Privacy accountant, which computes the cost of charges and of their composition.

The accountant uses only public values and never reads a record. NumPy is its only dependency.
"""

import warnings
from importlib import import_module

_MOVED = (
    "Calibrated", "Composed", "DiscreteGaussian", "DiscreteLaplace", "Gaussian", "Laplace", "Pure", "calibrate",
    "compose",
)  # fmt: skip
"""Names of sottovoce.calculator, which were here."""


def __getattr__(name: str) -> object:
    """Return a name that has moved, for one more version."""
    if name not in _MOVED:
        raise AttributeError(f"module 'sottovoce.privacy.accounting' has no attribute '{name}'")
    message = f"sottovoce.privacy.accounting.{name} has moved: import it from sottovoce.calculator"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(import_module("sottovoce.calculator"), name)
