"""Simulated disks that can fill up, after which neither an agent's state nor its ledger can be written.

On a full disk, every attempt to commit the state fails. SQLite, and hence the ledger, still accepts rows that fit into
the last page, so a charge may be durable even though the release that it pays for is not.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from sottovoce.errors import DataError, LedgerUnwritable
from sottovoce.node.links import NewestMessage, Outgoing, SavedState, Store
from sottovoce.privacy.api import Answer, CellAnswer, CellQuery, Query, Refused
from sottovoce.privacy.vault import Vault
from typing_extensions import override

from sottovoce_lab.simulator.wrapped_vault import WrappedVault

_MIN_PAGE_BYTES = 512
_MAX_PAGES = 2**32 - 2


class DiskFull(DataError):
    """Raised when a device cannot write because its disk is full; the device stops until it has space.

    Args:
        node: the device's node id.
    """

    def __init__(self, node: str) -> None:
        super().__init__(f"{node}: the device cannot write its state or ledger (the disk is full)")
        self.node = node


class Disk:
    """A device's simulated disk.

    Attributes:
        connection: the connection to the device's ledger database.
    """

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.connection.execute(f"PRAGMA page_size = {_MIN_PAGE_BYTES}")
        self._full = False

    @property
    def is_full(self) -> bool:
        """Whether the disk is full."""
        return self._full

    @is_full.setter
    def is_full(self, is_full: bool) -> None:
        used_pages = self.connection.execute("PRAGMA page_count").fetchone()[0]
        self.connection.execute(f"PRAGMA max_page_count = {used_pages if is_full else _MAX_PAGES}")
        self._full = is_full


class StoreOnDisk:
    """A store that fails while the device's disk is full. Implements sottovoce.node.links.Store.

    Args:
        store: the store that contains the state.
        disk: the device's disk.
        node: the device's node id.
    """

    def __init__(self, store: Store, disk: Disk, node: str) -> None:
        self._store, self._disk, self._node = store, disk, node

    def load(self) -> SavedState:
        """Return the stored state; see Store.load."""
        return self._store.load()

    def commit(
        self, state: Any, sent: Sequence[Outgoing], confirmed: Sequence[str], seen: tuple[str, NewestMessage] | None
    ) -> None:
        """Commit to the store; see Store.commit.

        Raises:
            DiskFull: if the disk is full, in which case nothing was written.
        """
        if self._disk.is_full:
            raise DiskFull(self._node)
        self._store.commit(state, sent, confirmed, seen)


class VaultOnDisk(WrappedVault):
    """A vault whose ledger is on the device's disk; raises DiskFull if the ledger cannot be written.

    Args:
        vault: the real vault.
        node: the device's node id.
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
            raise DiskFull(self._node) from error


def on_disk(vault: Vault, node: str) -> Vault:
    """Wrap a vault whose ledger is on a disk that can fill up, so that a failed write raises DiskFull."""
    return cast(Vault, VaultOnDisk(vault, node))
