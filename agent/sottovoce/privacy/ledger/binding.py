"""Startup checks that the ledger exists and that its owner and budget match the agent's."""

from pathlib import Path

from sottovoce.errors import LedgerError
from sottovoce.privacy.ledger.budget import Budget


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


def check_owner(path: Path, owner: str, device: str) -> None:
    """Check that the ledger belongs to this device.

    Raises:
        LedgerError: if it belongs to another device.
    """
    if owner != device:
        raise LedgerError(
            f"{path}: this ledger belongs to device {owner}, not to {device}; use this device's own state directory"
        )


def check_budget(path: Path, ledger_budget: Budget, configured: Budget) -> None:
    """Check that the ledger was created for the configured budget.

    Raises:
        LedgerError: if the budgets differ.
    """
    if ledger_budget != configured:
        raise LedgerError(
            f"{path}: the ledger was created for {ledger_budget.description}, but the configuration specifies "
            f"{configured.description}; {_remedy(ledger_budget, configured)}"
        )


def _remedy(ledger_budget: Budget, configured: Budget) -> str:
    """Return a remedy that never weakens the configured guarantee."""
    if ledger_budget.is_at_least_as_strict_as(configured):
        return "set the ledger's values under [privacy]"
    return (
        "the ledger's budget would promise less, and a ledger's budget never changes; enrol a new device with "
        f"`sottovoce fleet join {configured.join_options}`"
    )
