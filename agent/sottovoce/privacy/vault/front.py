"""Interface of a vault, which may run in this process or behind a socket in another process."""

from typing import Protocol

from sottovoce.privacy.api import Answer, CellAnswer, CellQuery, PrivacyStatement, Query, Refused
from sottovoce.privacy.ledger.budget import Spending
from sottovoce.privacy.ledger.chain import LedgerPosition
from sottovoce.privacy.ledger.witnesses import Witness


class VaultInterface(Protocol):
    """Interface for queries to a vault.

    Every method that is not a coroutine may wait for a disk or another process, so do not call it on an event loop.
    Every method raises PrivacyError if there is no answer, and LedgerError if the ledger failed.
    """

    @property
    def statement(self) -> PrivacyStatement:
        """The guarantee of the whole run."""
        ...

    def spending(self) -> Spending:
        """Return the spending recorded in the ledger."""
        ...

    def tip(self) -> LedgerPosition:
        """Return the ledger's latest position, as sent to peers."""
        ...

    def mark(self, charges: int, released: int) -> bytes | None:
        """Return the hash of the ledger's state at this charge and release, or None if one of them never existed."""
        ...

    def witnesses(self) -> tuple[Witness, ...]:
        """Return the peers that keep the ledger's latest position."""
        ...

    def appoint(self, witnesses: tuple[Witness, ...]) -> None:
        """Replace the peers that keep the ledger's latest position, durably."""
        ...

    async def ask(self, query: Query) -> Answer:
        """Return the release for a query, or a refusal with a reason; repeating a query returns the same release."""
        ...

    async def take_part(self, query: CellQuery) -> CellAnswer | Refused:
        """Perform a step of a secure sum; a step that does not follow from the previous steps is refused."""
        ...

    def close(self) -> None:
        """Finish the answer in progress, and free all resources."""
        ...
