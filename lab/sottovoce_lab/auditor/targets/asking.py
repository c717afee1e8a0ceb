"""Observer of the vault's answers, as strong as any observer of values computed from these answers."""

import numpy as np
from sottovoce.door import Query, Refused
from sottovoce.errors import PrivacyError
from sottovoce.vault import Vault

from sottovoce_lab.auditor.subject import Sighting


def ask_vault(vault: Vault, queries: list[Query]) -> Sighting:
    """Return the releases for these queries, each in units of 1.

    Raises:
        PrivacyError: if the vault refused a query: silence that depends on the records reveals something about them.
    """
    found = []
    for query in queries:
        answer = vault.answer(query)
        if isinstance(answer, Refused):
            raise PrivacyError(f"the vault refused a query that its budget pays for ({answer.reason})")
        found.append(answer.value * answer.step)
    return Sighting(np.stack(found), np.stack([query.point for query in queries]))
