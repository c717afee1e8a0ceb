"""Public types of the vault's interface for queries and releases.

These are the only types that a learner shares with the vault. The class that implements `Release` is inside the vault,
and only the vault can create instances. Import contracts prevent learners, wire and transport from importing the vault.
"""

from sottovoce.privacy.api.types import Answer, CellAnswer, CellQuery, PrivacyStatement, Query, Refused, Release, Status

__all__ = ["Answer", "CellAnswer", "CellQuery", "PrivacyStatement", "Query", "Refused", "Release", "Status"]
