"""Preview of a vault's promise under a configuration, computed by a vault that contains no records."""

from collections.abc import Mapping

import numpy as np

from sottovoce.algorithms.family import Family
from sottovoce.config import AgentConfig
from sottovoce.data import Records, width
from sottovoce.privacy.accounting.events import Event
from sottovoce.privacy.api import PrivacyStatement
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise


def preview_statement(
    config: AgentConfig, budget: Budget, family: Family
) -> tuple[PrivacyStatement, Mapping[Event, int]]:
    """Return the vault's own statement and the total charge of one unit, without using any records.

    Raises:
        PrivacyError: if nothing can be promised under this budget.
    """
    features = width(config.data.transform, config.data.features)
    empty = np.empty(0, dtype=np.int64)
    ledger = Ledger.in_memory("nobody", budget)
    try:
        vault = build(
            records=Records(np.empty((0, features)), empty, empty),
            kernel=family.kernel,
            terms=family.terms,
            ledger=ledger,
            noise=OperatingSystemNoise(),
        )
        return vault.statement, vault.lifetime
    finally:
        ledger.close()
