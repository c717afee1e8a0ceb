"""Checks of a ledger's owner and budget: an agent refuses to start with a ledger made for others."""

from pathlib import Path

from sottovoce.errors import LedgerError
from sottovoce.vault.budget import Budget


def check_ledger_exists(path: Path) -> None:
    """Refuse to begin without a ledger.

    Raises:
        LedgerError: if there is no ledger.
    """
    if not path.is_file():
        raise LedgerError(
            f"{path}: the privacy ledger is missing, so the ε already spent is unknown and nothing may be "
            "released. Put the file itself back, not an older copy; without it this identity can never release "
            "again, and a new device has to join"
        )


def check_owner(path: Path, found: str, device: str) -> None:
    """Refuse the ledger of another device.

    Raises:
        LedgerError: if the ledger is not this device's.
    """
    if found != device:
        raise LedgerError(f"{path}: this ledger belongs to device {found}, not to {device}")


def check_budget(path: Path, found: Budget, wanted: Budget) -> None:
    """Refuse a ledger that was made for another budget.

    Raises:
        LedgerError: if the budgets differ.
    """
    if found != wanted:
        raise LedgerError(
            f"{path}: the ledger was made for {found.words}, the configuration says {wanted.words}; "
            f"{_remedy(found, wanted)}"
        )


def _remedy(found: Budget, wanted: Budget) -> str:
    """Return a remedy that never promises less than the configuration does."""
    if found.is_at_least_as_strict_as(wanted):
        return "put the ledger's values under [privacy]"
    return (
        "the ledger's would promise less, and no ledger's budget ever changes: let a new device join with "
        f"`sottovoce fleet join {wanted.options}`"
    )
