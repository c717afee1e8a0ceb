"""From plain values to a working vault."""

from dataclasses import replace

import numpy as np

from sottovoce.data import Records
from sottovoce.kernels import Kernel
from sottovoce.vault.ledger import Ledger
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.observer import Observer
from sottovoce.vault.rooms.terms import Terms
from sottovoce.vault.vault import Vault


def build(
    *,
    records: Records,
    kernel: Kernel | None,
    terms: Terms,
    ledger: Ledger,
    noise: NoiseSource,
    observer: Observer | None = None,
) -> Vault:
    """A vault over `records` that keeps to `terms` and to the ledger's budget.

    Args:
        records: the private records.
        kernel: the model that is differentiated; None where the terms say all of it.
        terms: what will be asked.
        ledger: opened for charging.
        noise: the source of randomness.
        observer: looks into a simulation, whose noise is seeded.

    Raises:
        PrivacyError: the terms have no guarantee under this budget, or it cannot be calibrated.
        DataError: the records are not of the shape that the terms declare.
    """
    if kernel is not None:
        with np.errstate(over="ignore"):  # a warning would be a message about a record
            records = replace(records, features=records.features.astype(kernel.precision, copy=False))
    return Vault(replace(terms.room(records, kernel, ledger, noise), observer=observer))
