"""Audit the privacy of releases by playing distinguishing games against the shipped release path.

The auditor sees the same messages as a peer, chooses the records of two neighbouring worlds and knows every public
parameter.
"""

from sottovoce_lab.auditor.finding import CONFIDENCE, SIGNIFICANCE, Audit, Finding
from sottovoce_lab.auditor.run import audit
from sottovoce_lab.auditor.targets import LEARNERS, MECHANISMS

__all__ = ["CONFIDENCE", "LEARNERS", "MECHANISMS", "SIGNIFICANCE", "Audit", "Finding", "audit"]
