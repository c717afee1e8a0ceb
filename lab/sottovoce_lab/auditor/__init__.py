"""Does what leaves a device keep the promise? Distinguishing games against the shipped release path.

The auditor sees what a peer sees, chooses the records of two neighbouring worlds, and knows every public parameter.
"""

from sottovoce_lab.auditor.finding import CONFIDENCE, SIGNIFICANCE, Audit, Finding
from sottovoce_lab.auditor.run import audit
from sottovoce_lab.auditor.targets import LEARNERS, MECHANISMS

__all__ = ["CONFIDENCE", "LEARNERS", "MECHANISMS", "SIGNIFICANCE", "Audit", "Finding", "audit"]
