"""An observer of the vault's answers, at least as strong as any observer of values computed from them."""

import numpy as np
from sottovoce.errors import PrivacyError
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.vault import Vault

from sottovoce_lab.auditor.subject import ObservedRun


def ask_vault(vault: Vault, queries: list[Query]) -> ObservedRun:
    """Query the vault, and return its releases in units of 1.

    Raises:
        PrivacyError: if the vault refuses a query, because a refusal that depends on the records reveals information
            about them.
    """
    values = []
    for query in queries:
        answer = vault.answer(query)
        if isinstance(answer, Refused):
            raise PrivacyError(f"the vault refused a query that its budget covers ({answer.reason})")
        values.append(answer.value * answer.step)
    return ObservedRun(np.stack(values), np.stack([query.point for query in queries]))
