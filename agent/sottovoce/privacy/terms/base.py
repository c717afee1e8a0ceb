"""The terms between a learner and its vault, which are public and fixed before the learner starts."""

from dataclasses import replace
from typing import Protocol

import numpy as np

from sottovoce.data import Records
from sottovoce.errors import DataError, PrivacyError
from sottovoce.kernels import Kernel
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.mechanisms.clipped_sum import ClippedSum, calibrate, exact_sum
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
    """Make the records' windows their privacy units if the unit is a window; drop windows if the unit is a record.

    If the unit is the device, the windows remain facts about the records, such as a load's day.

    If the unit is a window, the records are sorted by window and content. A window's float sum depends on the order of
    addition; without sorting, it would depend on the records' positions in the file, which the charge does not cover.

    For charges to individual records, see `number_by_hash`.

    Raises:
        DataError: if the unit is a window, but the records have no windows.
    """
    if unit == "device":
        return records
    if unit == "record":
        return replace(records, windows=None)
    if records.windows is None:
        raise DataError(
            "the privacy unit is a window, but the records do not specify their windows; store the window "
            "numbers as the array `windows` in an npz file, or set privacy.unit=record"
        )
    order = np.lexsort((records.labels, *records.features.T, records.windows))
    ordered = records.at(order)
    return replace(ordered, units=ordered.windows)


def sum_mechanism(
    budget: Budget, *, clip: float, size: int, releases: int = 1, spent_mu_squared: float = 0.0
) -> ClippedSum:
    """Return the bound and noise of clipped sums that use up a budget; without an ε, the noise-free baseline's.

    Args:
        budget: the ledger's budget.
        clip: L2 norm at which each row is clipped.
        size: number of values in a sum.
        releases: number of sums that the budget covers.
        spent_mu_squared: the μ² of other releases that the same budget pays for.

    Raises:
        PrivacyError: if the noise cannot be calibrated.
    """
    if budget.epsilon is None:
        return exact_sum(clip=clip, size=size)
    return calibrate(
        clip=clip,
        size=size,
        releases=releases,
        epsilon=budget.epsilon,
        delta=budget.delta,
        neighbouring=budget.neighbouring,
        spent_mu_squared=spent_mu_squared,
    )


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
