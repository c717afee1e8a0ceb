"""The public Python API, `import sottovoce_lab`, with simulations, audits and estimators."""

from sottovoce_lab.auditor import Audit, Finding, audit
from sottovoce_lab.library.arrays import RangeWarning
from sottovoce_lab.library.estimators import FleetClassifier, FleetRegressor, PrivacyWarning
from sottovoce_lab.library.runs import Run, Runs
from sottovoce_lab.library.simulation import DataWarning, Progress, simulate

__all__ = [
    "Audit",
    "DataWarning",
    "Finding",
    "FleetClassifier",
    "FleetRegressor",
    "PrivacyWarning",
    "Progress",
    "RangeWarning",
    "Run",
    "Runs",
    "audit",
    "simulate",
]
