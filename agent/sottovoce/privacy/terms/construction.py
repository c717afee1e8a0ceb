"""Construction of a vault from its records, terms and ledger."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.data import Records
from sottovoce.kernels import Kernel
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.terms.base import Terms, unit_records
from sottovoce.privacy.vault.growing_records import GrowingRecords
from sottovoce.privacy.vault.observer import Observer
from sottovoce.privacy.vault.vault import Vault

if TYPE_CHECKING:  # only devices in a cell need this import
    from sottovoce.privacy.vault.cell_member import SignatureVerifier


def build(
    *,
    records: Records,
    kernel: Kernel | None,
    terms: Terms,
    ledger: Ledger,
    noise: NoiseSource,
    observer: Observer | None = None,
    growing_records: GrowingRecords | None = None,
    closed_reason: Callable[[], str | None] = lambda: None,
    verify_signature: "SignatureVerifier | None" = None,
    unproved: str = "",
) -> Vault:
    """Build a vault over `records` that enforces `terms` and the ledger's budget.

    Args:
        records: the private records.
        kernel: the model to differentiate; None if the terms fully define the queries.
        terms: terms of all future queries.
        ledger: the ledger, open for charging.
        noise: the source of randomness.
        observer: receives a simulation's intermediate results; requires seeded noise.
        growing_records: the source of `records`, if it grows window by window; the unit is then a window or the device.
        closed_reason: see VaultContext.
        verify_signature: see VaultContext.
        unproved: why the way from the source to the records keeps the statement from being proved; empty if it does
            not.

    Raises:
        PrivacyError: if the terms have no guarantee under this budget, or if the noise cannot be calibrated.
        DataError: if the records do not have the shape that the terms declare.
    """
    built = terms.context(_in_kernel_precision(records, kernel), kernel, ledger, noise)
    context = replace(
        built,
        statement=built.statement.without_proof(unproved),
        observer=observer,
        closed_reason=closed_reason,
        verify_signature=verify_signature,
    )
    if growing_records is None:
        return Vault(context)

    pays = "window" if ledger.own_budget.unit == "window" else ledger.budget.unit

    def read() -> Records:
        return unit_records(_in_kernel_precision(growing_records.read(), kernel), pays)

    return Vault(replace(context, growing_records=replace(growing_records, read=read)))


def _in_kernel_precision(records: Records, kernel: Kernel | None) -> Records:
    """Return the records with features in the kernel's precision."""
    if kernel is None:
        return records
    with np.errstate(over="ignore"):  # a warning would reveal something about a record
        return replace(records, features=records.features.astype(kernel.precision, copy=False))
