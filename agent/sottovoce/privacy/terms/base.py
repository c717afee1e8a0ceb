"""The terms between a learner and its vault, which are public and fixed before the learner starts."""

from dataclasses import replace
from typing import Protocol

import numpy as np

from sottovoce.data import Records
from sottovoce.errors import DataError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.vault.vault import VaultContext


class Terms(Protocol):
    """Interface of a learner's terms for its vault, which consist only of public values."""

    @property
    def learner(self) -> str:
        """The learner's name in queries to the vault."""
        ...

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """Return the components of a vault that enforces these terms and the ledger's budget.

        Raises:
            PrivacyError: if the terms have no guarantee under this budget, or if the noise cannot be calibrated.
            DataError: if the records do not have the shape that the terms declare.
        """
        ...


def unit_records(records: Records, unit: str) -> Records:
    """Keep the records' windows, as privacy units, if the unit is a window; otherwise drop them.

    If the unit is a window, the records are sorted by window and content. A window's float sum depends on the order of
    addition; without sorting, it would depend on the records' positions in the file, which the charge does not cover.

    For charges to individual records, see `number_by_hash`.

    Raises:
        DataError: if the unit is a window, but the records have no windows.
    """
    if unit != "window":
        return replace(records, windows=None)
    if records.windows is None:
        raise DataError(
            "the privacy unit is a window, but the records do not specify their windows; store the window "
            "numbers as the array `windows` in an npz file, or set privacy.unit=record"
        )
    order = np.lexsort((records.labels, *records.features.T, records.windows))
    ordered = records.at(order)
    return replace(ordered, units=ordered.windows)


def check_unit(learner: str, budget: Budget) -> None:
    """Check that the budget's privacy unit is a record, as the learner requires.

    Raises:
        PrivacyError: if the unit is larger than a record.
    """
    if budget.unit != "record":
        raise PrivacyError(
            f"learner `{learner}` bounds the contribution of one record, not of one {budget.unit}; set "
            "privacy.unit=record"
        )
