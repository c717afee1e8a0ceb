"""List of the fleet tasks that a ledger has activated, in order, as stored in the ledger."""

from sottovoce.vault.budget import Budget
from sottovoce.vault.keeper_list import Access
from sottovoce.vault.mandate import Mandate


class MandateList:
    """Mandates of one ledger.

    Args:
        reading: opens the ledger's file for reading.
        writing: opens the ledger's file for one transaction.
    """

    def __init__(self, reading: Access, writing: Access) -> None:
        self._reading, self._writing = reading, writing

    def newest(self) -> Mandate | None:
        """Return the last activated task; None before any.

        Raises:
            LedgerError: if the file failed.
        """
        query = (
            "SELECT epoch, epsilon, delta, unit, neighbouring, document, period FROM task ORDER BY epoch DESC LIMIT 1"
        )
        with self._reading() as connection:
            row = connection.execute(query).fetchone()
        return None if row is None else Mandate(row[0], Budget(*row[1:5]), row[5], row[6])

    def add(self, mandate: Mandate) -> None:
        """Add a mandate, durably.

        Raises:
            LedgerError: if the disk or the file failed.
        """
        budget = mandate.budget
        terms = (budget.epsilon, budget.delta, budget.unit, budget.neighbouring)
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO task VALUES (?, ?, ?, ?, ?, ?, ?)",
                (mandate.epoch, *terms, mandate.document, mandate.period),
            )
