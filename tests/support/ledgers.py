"""Ledgers as earlier versions of the program wrote them."""

SCHEMA_7 = "DROP TABLE span; PRAGMA user_version = 7; "
"""Back to the one that knew no limits of the owner's."""
SCHEMA_6 = (
    SCHEMA_7 + "DROP TABLE enrolled; CREATE TABLE file (number INTEGER PRIMARY KEY, records INTEGER NOT NULL) STRICT; "
    "CREATE TABLE record (digest BLOB PRIMARY KEY, number INTEGER UNIQUE) STRICT, WITHOUT ROWID; "
    "PRAGMA user_version = 6; "
)
"""From schema 7 back to the one that numbered enrolled records and did not keep them."""
SCHEMA_5 = (
    SCHEMA_6 + "DROP TABLE period; DROP TABLE lived; DROP TABLE numbering; ALTER TABLE task DROP COLUMN period; "
    "PRAGMA user_version = 5; "
)
"""Back to the one that knew neither periods nor numberings."""
