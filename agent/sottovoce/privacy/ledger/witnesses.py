"""A ledger's witnesses: peers that store its latest position and are listed in the ledger itself."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Witness:
    """A peer that receives every new position of the ledger and is asked for the latest one at every start.

    Attributes:
        node: the witness's node id.
        endpoints: last known addresses of the witness, in the order in which to try them.
    """

    node: str
    endpoints: tuple[str, ...]


def encode_witnesses(witnesses: tuple[Witness, ...]) -> str:
    """Encode witnesses as the ledger stores them."""
    return json.dumps([[witness.node, *witness.endpoints] for witness in witnesses], separators=(",", ":"))


def parse_witnesses(text: str) -> tuple[Witness, ...]:
    """Parse witnesses as the ledger stores them; see `encode_witnesses`.

    Raises:
        ValueError: if the text is not in this form.
    """
    entries = json.loads(text)
    if not isinstance(entries, list) or not all(_is_witness(entry) for entry in entries):
        raise ValueError("not a witness list")
    return tuple(Witness(node, tuple(endpoints)) for node, *endpoints in entries)


def _is_witness(entry: object) -> bool:
    """Return whether the entry is a list of a node id and at least one endpoint."""
    return isinstance(entry, list) and len(entry) > 1 and all(isinstance(part, str) for part in entry)


Access = Callable[[], AbstractContextManager[sqlite3.Connection]]
"""Function that opens a ledger file; raises LedgerError if the disk or the file fails."""


class WitnessList:
    """The witnesses of one ledger.

    Args:
        read_access: opens the ledger's file for reading.
        write_access: opens the ledger's file for one transaction.
    """

    def __init__(self, read_access: Access, write_access: Access) -> None:
        self._read_access, self._write_access = read_access, write_access

    def load_newest(self) -> tuple[Witness, ...]:
        """Return the witnesses that were appointed last.

        Raises:
            LedgerError: if the ledger file cannot be read.
        """
        with self._read_access() as connection:
            row = connection.execute("SELECT named FROM keepers ORDER BY number DESC LIMIT 1").fetchone()
            try:
                return () if row is None else parse_witnesses(row[0])
            except ValueError as error:
                raise sqlite3.DatabaseError("the witness list is malformed") from error

    def appoint(self, witnesses: tuple[Witness, ...]) -> None:
        """Replace the witness list, durably.

        Raises:
            LedgerError: if the ledger file cannot be written.
        """
        with self._write_access() as connection:
            connection.execute("INSERT INTO keepers (named) VALUES (?)", (encode_witnesses(witnesses),))
