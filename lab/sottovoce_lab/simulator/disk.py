"""Disks of simulated agents that can fill up, so that neither the state nor the ledger can be written.

On a full disk the state's file accepts no commit. The ledger, as always with SQLite, still accepts rows that fit in its
last page, so a charge may be durable while the release that it pays for is not.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from sottovoce.agent.links import Outgoing, Saved, Seen, Store
from sottovoce.door import Answer, CellAnswer, CellQuery, Query, Refused
from sottovoce.errors import DataError, LedgerUnwritable
from sottovoce.vault import Vault
from typing_extensions import override

from sottovoce_lab.simulator.wrapped_vault import WrappedVault

_SMALLEST_PAGE = 512
_MAX_PAGES = 2**32 - 2


class OutOfRoom(DataError):
    """Error of a device that could not write; the device stops until there is room.

    Args:
        node: node id of the device.
    """

    def __init__(self, node: str) -> None:
        super().__init__(f"{node}: cannot be written (the disk is full)")
        self.node = node


class Disk:
    """Disk of one device.

    Attributes:
        connection: connection to the database of the device's ledger.
    """

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.connection.execute(f"PRAGMA page_size = {_SMALLEST_PAGE}")
        self._full = False

    @property
    def full(self) -> bool:
        """Whether the disk is full."""
        return self._full

    @full.setter
    def full(self, full: bool) -> None:
        used = self.connection.execute("PRAGMA page_count").fetchone()[0]
        self.connection.execute(f"PRAGMA max_page_count = {used if full else _MAX_PAGES}")
        self._full = full


class StoreOnDisk:
    """State of a device on its disk. Implements sottovoce.agent.links.Store.

    Args:
        store: store of the state.
        disk: disk of the device.
        node: node id of the device.
    """

    def __init__(self, store: Store, disk: Disk, node: str) -> None:
        self._store, self._disk, self._node = store, disk, node

    def load(self) -> Saved:
        """See Store.load."""
        return self._store.load()

    def commit(
        self, state: Any, sent: Sequence[Outgoing], confirmed: Sequence[str], seen: tuple[str, Seen] | None
    ) -> None:
        """See Store.commit.

        Raises:
            OutOfRoom: if the disk is full; nothing was written.
        """
        if self._disk.full:
            raise OutOfRoom(self._node)
        self._store.commit(state, sent, confirmed, seen)


class VaultOnDisk(WrappedVault):
    """Vault whose ledger is on the device's disk; raises OutOfRoom if the ledger cannot be written.

    Args:
        vault: the real vault.
        node: node id of the device.
    """

    def __init__(self, vault: Vault, node: str) -> None:
        super().__init__(vault)
        self._node = node

    @override
    def answer(self, query: Query) -> Answer:
        with self._translate_full_disk():
            return super().answer(query)

    @override
    def step(self, query: CellQuery) -> CellAnswer | Refused:
        with self._translate_full_disk():
            return super().step(query)

    @contextmanager
    def _translate_full_disk(self) -> Iterator[None]:
        try:
            yield
        except LedgerUnwritable as error:
            raise OutOfRoom(self._node) from error


def on_disk(vault: Vault, node: str) -> Vault:
    """Wrap the vault of a device whose ledger is on a disk that can fill up."""
    return cast(Vault, VaultOnDisk(vault, node))
