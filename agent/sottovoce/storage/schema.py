"""Schema versions of a device's databases; older databases are upgraded, and newer ones are left unchanged."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sottovoce.errors import DataError
from sottovoce.storage.durable import rename

PAGE_BYTES = 512
"""Database page size; the smallest, since a commit writes whole pages even if only a few hundred bytes change."""

_CACHE_KIB = 128
"""Page cache of a connection. SQLite's default of 2 MiB is never reached by reading, but filled by weeks of commits."""


def use_log(connection: sqlite3.Connection, synchronous: Literal["FULL", "NORMAL"] = "FULL") -> None:
    """Switch a database to a write-ahead log and a small page cache.

    Args:
        connection: connection to the database.
        synchronous: whether every commit waits for the disk (`FULL`), or the latest ones may be lost in a power cut.

    Raises:
        sqlite3.Error: if the disk is full or failing.
    """
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of one kind of SQLite file.

    Attributes:
        application: SQLite's `application_id` for this kind of file.
        name: name of this kind of file for error messages.
        migrations: SQL scripts. The first creates version 1 in an empty file, and each further one upgrades to the next
            version. A released script never changes.
        downgrade_remedy: remedy, and its cost, if a newer program wrote the file and is no longer available.
    """

    application: int
    name: str
    migrations: tuple[str, ...]
    downgrade_remedy: str

    def create_database(self, path: Path) -> None:
        """Create an empty database of the current version that only its owner can access, replacing any existing file.

        Raises:
            OSError: if the disk is full or failing.
            sqlite3.Error: if the disk is full or failing.
        """
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        draft = path.with_name(path.name + ".new")
        draft.unlink(missing_ok=True)
        connection = sqlite3.connect(draft, isolation_level=None)
        self.create(connection)
        connection.close()
        draft.chmod(0o600)
        rename(draft, path)

    def create(self, connection: sqlite3.Connection, page_bytes: int = PAGE_BYTES) -> None:
        """Create the current schema in an empty file."""
        connection.execute(f"PRAGMA page_size = {page_bytes}")
        self._apply(connection, 0)

    def version(self, connection: sqlite3.Connection, path: Path) -> int:
        """Return the schema version of a file without changing the file.

        Raises:
            ValueError: if the file belongs to another program, or has a version that this program never wrote.
            DataError: if a newer version of this program wrote the file.
        """
        if connection.execute("PRAGMA application_id").fetchone()[0] != self.application:
            raise ValueError(f"the file is not {self.name}")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > len(self.migrations):
            raise DataError(
                f"{path}: a newer version of the program wrote this file (schema {version}, this one supports up to "
                f"{len(self.migrations)}), and the file is intact; run that version again, or {self.downgrade_remedy}"
            )
        if version < 1:
            raise ValueError(f"the file has schema version {version}, which never existed")
        return version

    def upgrade(self, connection: sqlite3.Connection, path: Path) -> None:
        """Upgrade a file to the current version atomically.

        Raises:
            ValueError: see `version`.
            DataError: see `version`.
        """
        version = self.version(connection, path)
        if version < len(self.migrations):
            self._apply(connection, version)

    def _apply(self, connection: sqlite3.Connection, version: int) -> None:
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE; PRAGMA application_id = {self.application}; {''.join(self.migrations[version:])} "
                f"PRAGMA user_version = {len(self.migrations)}; COMMIT;"
            )
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
