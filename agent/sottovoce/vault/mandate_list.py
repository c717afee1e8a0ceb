"""The fleet tasks that a device has accepted, in order, as stored in its ledger."""

from sottovoce.vault.budget import Budget
from sottovoce.vault.keeper_list import Access
from sottovoce.vault.mandate import Mandate


class MandateList:
    """The mandates of one ledger.

    Args:
        read_access: opens the ledger's file for reading.
        write_access: opens the ledger's file for one transaction.
    """

    def __init__(self, read_access: Access, write_access: Access) -> None:
        self._read_access, self._write_access = read_access, write_access

    def load_newest(self) -> Mandate | None:
        """Return the task accepted last, or None if no task has been accepted.

        Raises:
            LedgerError: if the ledger file cannot be read.
        """
        query = (
            "SELECT epoch, epsilon, delta, unit, neighbouring, document, period FROM task ORDER BY epoch DESC LIMIT 1"
        )
        with self._read_access() as connection:
            row = connection.execute(query).fetchone()
        return None if row is None else Mandate(row[0], Budget(*row[1:5]), row[5], row[6])

    def add(self, mandate: Mandate) -> None:
        """Add a mandate, durably.

        Raises:
            LedgerError: if the ledger file cannot be written.
        """
        budget = mandate.budget
        terms = (budget.epsilon, budget.delta, budget.unit, budget.neighbouring)
        with self._write_access() as connection:
            connection.execute(
                "INSERT INTO task VALUES (?, ?, ?, ?, ?, ?, ?)",
                (mandate.epoch, *terms, mandate.document, mandate.period),
            )
