"""Public definitions for two kinds of release: perturbed records, and gradients computed on a walking model's visits.

Following Hegedűs & Jelasity (2017), Section 3, each node publishes one noisy record once, and any node that reads it
may learn from it any number of times. The vault draws the noise; this package only defines its distribution.
"""

from sottovoce.privacy.perturbation.cap import Cap
from sottovoce.privacy.perturbation.choice import RESERVED_NAMES, register_scheme, scheme, select_scheme
from sottovoce.privacy.perturbation.contrast import select_scheme_for_ridge
from sottovoce.privacy.perturbation.exact import Exact
from sottovoce.privacy.perturbation.laplace import Laplace, LaplaceCopies
from sottovoce.privacy.perturbation.plugin import RecordMechanismPlugin
from sottovoce.privacy.perturbation.priv_unit import PrivUnit
from sottovoce.privacy.perturbation.randomised_response import RandomisedLabel
from sottovoce.privacy.perturbation.scheme import Moments, Scheme
from sottovoce.privacy.perturbation.two_part import LabelledPrivUnit

__all__ = [
    "RESERVED_NAMES",
    "Cap",
    "Exact",
    "LabelledPrivUnit",
    "Laplace",
    "LaplaceCopies",
    "Moments",
    "PrivUnit",
    "RandomisedLabel",
    "RecordMechanismPlugin",
    "Scheme",
    "register_scheme",
    "scheme",
    "select_scheme",
    "select_scheme_for_ridge",
]
