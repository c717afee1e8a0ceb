"""Schema versions of a device's databases: older databases are upgraded, and newer ones are left alone."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from sottovoce.durable import rename
from sottovoce.errors import DataError

PAGE_BYTES = 1024
"""Page size of a database: a commit writes whole pages, though it changes a few hundred bytes."""


@dataclass(frozen=True, slots=True)
class Schema:
    """Schema of one kind of SQLite file.

    Attributes:
        application: SQLite's `application_id` of such a file.
        name: a name for error messages.
        steps: SQL. The first step turns an empty file into version 1, and every other one leads to the next version. A
            released step is never changed.
        otherwise: remedy for a file of a newer version if the newer program is not at hand, and its cost.
    """

    application: int
    name: str
    steps: tuple[str, ...]
    otherwise: str

    def begin(self, path: Path) -> None:
        """Replace the file, if any, by an empty database of the current version that only its user can read.

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
        """Return the schema number of a file; the file is not changed.

        Raises:
            ValueError: if it belongs to another program, or has a version that this program never wrote.
            DataError: if a newer version of this program wrote it.
        """
        if connection.execute("PRAGMA application_id").fetchone()[0] != self.application:
            raise ValueError(f"it is not {self.name}")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > len(self.steps):
            raise DataError(
                f"{path}: a newer version of the program wrote it (schema {version}, this one knows up to "
                f"{len(self.steps)}), and nothing is wrong with it: run that version again, or {self.otherwise}"
            )
        if version < 1:
            raise ValueError(f"its schema is version {version}, which never existed")
        return version

    def upgrade(self, connection: sqlite3.Connection, path: Path) -> None:
        """Upgrade a file to the current version, entirely or not at all.

        Raises:
            ValueError: see `version`.
            DataError: see `version`.
        """
        if (version := self.version(connection, path)) < len(self.steps):
            self._apply(connection, version)

    def _apply(self, connection: sqlite3.Connection, version: int) -> None:
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE; PRAGMA application_id = {self.application}; {''.join(self.steps[version:])} "
                f"PRAGMA user_version = {len(self.steps)}; COMMIT;"
            )
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
