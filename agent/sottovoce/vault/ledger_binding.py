"""Checks of a ledger's owner and budget; an agent refuses to start if they are not its own."""

from pathlib import Path

from sottovoce.errors import LedgerError
from sottovoce.vault.budget import Budget


def check_ledger_exists(path: Path) -> None:
    """Check that the ledger file exists.

    Raises:
        LedgerError: if it does not exist.
    """
    if not path.is_file():
        raise LedgerError(
            f"{path}: the privacy ledger is missing, so the ε already spent is unknown and nothing may be "
            "released. Restore this exact file, not an older copy; without it, this identity can never release "
            "anything again, and a new device must join"
        )


def check_owner(path: Path, found: str, device: str) -> None:
    """Check that the ledger belongs to this device.

    Raises:
        LedgerError: if it belongs to another device.
    """
    if found != device:
        raise LedgerError(f"{path}: this ledger belongs to device {found}, not to {device}")


def check_budget(path: Path, found: Budget, wanted: Budget) -> None:
    """Check that the ledger was created for the configured budget.

    Raises:
        LedgerError: if the budgets differ.
    """
    if found != wanted:
        raise LedgerError(
            f"{path}: the ledger was created for {found.words}, but the configuration specifies {wanted.words}; "
            f"{_remedy(found, wanted)}"
        )


def _remedy(found: Budget, wanted: Budget) -> str:
    """Return a remedy that never promises less than the configuration does."""
    if found.is_at_least_as_strict_as(wanted):
        return "set the ledger's values under [privacy]"
    return (
        "the ledger's budget would promise less, and a ledger's budget never changes; enrol a new device with "
        f"`sottovoce fleet join {wanted.options}`"
    )
