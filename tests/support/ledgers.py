"""Ledgers as earlier versions of the program wrote them."""

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
