"""The terms a learner agrees with its vault, fixed publicly before it starts."""

from dataclasses import replace
from typing import Protocol

import numpy as np

from sottovoce.data import Records
from sottovoce.errors import DataError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.vault.budget import Budget
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.vault import VaultContext


class Terms(Protocol):
    """Terms of a learner for its vault, made of public values alone."""

    @property
    def learner(self) -> str:
        """Name of the learner in queries to the vault."""
        ...

    def context(self, records: Records, kernel: Kernel | None, ledger: Ledger, noise: NoiseSource) -> VaultContext:
        """Return the parts of a vault that keeps to these terms and to the ledger's budget.

        Raises:
            PrivacyError: if the terms have no guarantee under this budget, or it cannot be calibrated.
            DataError: if the records do not have the shape that the terms declare.
        """
        ...


def unit_records(records: Records, unit: str) -> Records:
    """Return records with their windows if the unit is a window, by which they are charged; otherwise without.

    They are sorted by window and by content: a window's sum of floats depends on the order of addition, and a charge to
    a window does not cover the places of its records in the file.

    If single records are charged, see `numbered`.

    Raises:
        DataError: if the unit is a window, and the records have none.
    """
    if unit != "window":
        return replace(records, windows=None)
    if records.windows is None:
        raise DataError(
            "the privacy unit is a window, but the records do not say which window they belong to: store their numbers "
            "as the array `windows` of an npz file, or choose privacy.unit=record"
        )
    order = np.lexsort((records.labels, *records.features.T, records.windows))
    ordered = records.at(order)
    return replace(ordered, units=ordered.windows)


def check_unit(learner: str, budget: Budget) -> None:
    """Refuse a privacy unit that is larger than the learner's.

    Raises:
        PrivacyError: if the unit is not a record.
    """
    if budget.unit != "record":
        raise PrivacyError(
            f"learner `{learner}` bounds what one record adds, not what a {budget.unit} does: set privacy.unit=record"
        )
