"""The door between the vault and everything else: public values go in, releases come out.

These are the only types a learner shares with the vault. The class that implements `Release` lives inside the
vault, which alone can build one; import contracts keep learners, wire and transport out of the vault.
"""

from sottovoce.door.statement import PrivacyStatement, Status
from sottovoce.door.types import Answer, CellAnswer, CellQuery, Query, Refused, Release

__all__ = ["Answer", "CellAnswer", "CellQuery", "PrivacyStatement", "Query", "Refused", "Release", "Status"]
