"""Public types of the vault's interface: queries and releases.

These are the only types that a learner shares with the vault. The class that implements `Release` is inside the vault,
and only the vault can build one; import contracts keep learners, wire and transport out of the vault.
"""

from sottovoce.door.statement import PrivacyStatement, Status
from sottovoce.door.types import Answer, CellAnswer, CellQuery, Query, Refused, Release

__all__ = ["Answer", "CellAnswer", "CellQuery", "PrivacyStatement", "Query", "Refused", "Release", "Status"]
