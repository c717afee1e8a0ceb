"""Front of a vault, wherever it runs: in this process, or behind a socket in another process."""

from typing import Protocol

from sottovoce.door import Answer, CellAnswer, CellQuery, PrivacyStatement, Query, Refused
from sottovoce.vault.budget import Spending
from sottovoce.vault.chain import Tip
from sottovoce.vault.keepers import Keeper


class VaultFront(Protocol):
    """Interface for queries. Every method but `ask` may wait for a disk or another process: keep it off an event loop.

    Every method raises PrivacyError if there is no answer, and LedgerError if the ledger failed.
    """

    @property
    def statement(self) -> PrivacyStatement:
        """The guarantee of the whole run."""
        ...

    def spending(self) -> Spending:
        """Return the spending according to the ledger."""
        ...

    def tip(self) -> Tip:
        """Return the head of the ledger, as peers see it."""
        ...

    def mark(self, charges: int, released: int) -> bytes | None:
        """Return the ledger's mark with this newest charge and newest release; None if it never held one of them."""
        ...

    def keepers(self) -> tuple[Keeper, ...]:
        """Return the keepers of the ledger's newest head."""
        ...

    def appoint(self, keepers: tuple[Keeper, ...]) -> None:
        """Replace the keepers of the ledger's newest head, durably."""
        ...

    async def ask(self, query: Query) -> Answer:
        """Return the release for a query, or a refusal with its reason; an equal query id gets an equal answer."""
        ...

    async def take_part(self, query: CellQuery) -> CellAnswer | Refused:
        """Take a step of a secure sum; a step that does not follow from those before is refused."""
        ...

    def close(self) -> None:
        """Finish the answer in progress, and release everything."""
        ...
