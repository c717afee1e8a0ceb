"""The peers that keep a ledger's latest position, as stored in the ledger; only the newest list is valid."""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager

from sottovoce.vault.keepers import Keeper, encode_keepers, parse_keepers

Access = Callable[[], AbstractContextManager[sqlite3.Connection]]
"""Function that opens a ledger file; raises LedgerError if the disk or the file fails."""


class KeeperList:
    """The keepers of one ledger.

    Args:
        read_access: opens the ledger's file for reading.
        write_access: opens the ledger's file for one transaction.
    """

    def __init__(self, read_access: Access, write_access: Access) -> None:
        self._read_access, self._write_access = read_access, write_access

    def load_newest(self) -> tuple[Keeper, ...]:
        """Return the keepers that were appointed last.

        Raises:
            LedgerError: if the ledger file cannot be read.
        """
        with self._read_access() as connection:
            row = connection.execute("SELECT named FROM keepers ORDER BY number DESC LIMIT 1").fetchone()
            try:
                return () if row is None else parse_keepers(row[0])
            except ValueError as error:
                raise sqlite3.DatabaseError("the keeper list is malformed") from error

    def appoint(self, keepers: tuple[Keeper, ...]) -> None:
        """Replace the keeper list, durably.

        Raises:
            LedgerError: if the ledger file cannot be written.
        """
        with self._write_access() as connection:
            connection.execute("INSERT INTO keepers (named) VALUES (?)", (encode_keepers(keepers),))
