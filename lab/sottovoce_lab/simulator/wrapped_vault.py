"""A wrapper around the real vault, for subclasses that change part of its behaviour."""

from sottovoce.privacy.api import Answer, CellAnswer, CellQuery, PrivacyStatement, Query, Refused
from sottovoce.privacy.vault import Spending, Vault


class WrappedVault:
    """A vault that forwards every call to the real vault.

    Args:
        vault: the real vault.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    @property
    def statement(self) -> PrivacyStatement:
        """The real vault's privacy statement; see Vault.statement."""
        return self._vault.statement

    def spending(self) -> Spending:
        """Return the real vault's spending; see Vault.spending."""
        return self._vault.spending()

    def answer(self, query: Query) -> Answer:
        """Return the real vault's answer; see Vault.answer."""
        return self._vault.answer(query)

    def step(self, query: CellQuery) -> CellAnswer | Refused:
        """Return the real vault's answer to a step; see Vault.step."""
        return self._vault.step(query)
