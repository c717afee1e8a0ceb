"""Ledgers as earlier versions of the program wrote them."""

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

SCHEMA_7 = "DROP TABLE span; PRAGMA user_version = 7; "
"""SQL that reverts a ledger to schema 7, which had no limits set by the owner."""
SCHEMA_6 = (
    SCHEMA_7 + "DROP TABLE enrolled; CREATE TABLE file (number INTEGER PRIMARY KEY, records INTEGER NOT NULL) STRICT; "
    "CREATE TABLE record (digest BLOB PRIMARY KEY, number INTEGER UNIQUE) STRICT, WITHOUT ROWID; "
    "PRAGMA user_version = 6; "
)
"""SQL that reverts a ledger to schema 6, which numbered enrolled records and did not keep them."""
SCHEMA_5 = (
    SCHEMA_6 + "DROP TABLE period; DROP TABLE lived; DROP TABLE numbering; ALTER TABLE task DROP COLUMN period; "
    "PRAGMA user_version = 5; "
)
"""SQL that reverts a ledger to schema 5, which had neither periods nor numberings."""


def revert_to_schema_8(path: Path) -> None:
    """Revert a closed ledger to schema 8, which compressed the enrolled records."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.create_function("compress", 1, lambda value: zlib.compress(value, 1))
        connection.executescript(
            "BEGIN; DROP TRIGGER enrolled_UPDATE; UPDATE enrolled SET value = compress(value); "
            "CREATE TRIGGER enrolled_UPDATE BEFORE UPDATE ON enrolled BEGIN SELECT RAISE(ABORT, 'append only'); END; "
            "PRAGMA user_version = 8; COMMIT; VACUUM;"
        )
