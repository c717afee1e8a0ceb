"""Version 0.1 ledger: migrated without change of meaning; facts that are no longer known are refused by name."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.errors import LedgerError, PrivacyError
from sottovoce.privacy.accounting.events import GaussianSum, RecordReleased
from sottovoce.privacy.accounting.units import EVERY, Units
from sottovoce.privacy.ledger.budget import StoredRelease
from sottovoce.privacy.ledger.mandate import Mandate
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.privacy.vault.numbering import enrol_records

from tests.support.ledgers import SCHEMA_5, SCHEMA_6

OWNER = "meter-17"
BUDGETS = [Budget(2.0, 1e-5, unit, "replace-one") for unit in ("record", "window")]
OF_VERSION_0_1 = """
PRAGMA application_id = 1358892257; PRAGMA user_version = 3; PRAGMA journal_mode = WAL;
CREATE TABLE budget (owner TEXT NOT NULL, epsilon REAL, delta REAL NOT NULL, unit TEXT NOT NULL,
                     neighbouring TEXT NOT NULL, nonce BLOB NOT NULL) STRICT;
CREATE TABLE charge (number INTEGER PRIMARY KEY, query BLOB NOT NULL UNIQUE, terms TEXT NOT NULL,
                     link BLOB NOT NULL) STRICT;
CREATE TABLE release (number INTEGER PRIMARY KEY REFERENCES charge (number), exponent INTEGER NOT NULL,
                      value BLOB NOT NULL, simulated INTEGER NOT NULL, digest BLOB NOT NULL) STRICT;
"""


def ledger_answers(ledger: Ledger) -> tuple[object, ...]:
    """Return all of the ledger's answers."""
    return (
        ledger.spending(),
        ledger.head(),
        ledger.tip(),
        list(ledger.charges()),
        ledger.stored_release(bytes([1]) * 32),
    )


def of_version_0_1(path: Path, budget: Budget, *events: GaussianSum | RecordReleased) -> tuple[object, ...]:
    """Make a version 0.1 file with these charges, the first of which was answered; return its answers."""
    now = path.with_name("now.db")
    Ledger.create(now, OWNER, budget)
    ledger = Ledger.open(now, OWNER, budget)
    for number, event in enumerate(events, 1):
        assert ledger.charge(bytes([number]) * 32, event)
    ledger.store(bytes([1]) * 32, StoredRelease(-3, b"12345678", False))
    result = ledger_answers(ledger)
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.executescript(OF_VERSION_0_1)
        for table in ("budget", "charge", "release"):
            names = ", ".join(row[1] for row in old.execute(f"PRAGMA table_info({table})"))
            rows = ledger._connection.execute(f"SELECT {names} FROM {table}").fetchall()
            old.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    ledger.close()
    return result


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.unit)
def test_a_migrated_ledger_continues_with_the_same_answers(tmp_path: Path, budget: Budget) -> None:
    path = tmp_path / "ledger.db"
    units = EVERY if budget.unit == "record" else Units(((3, 5),))
    before = of_version_0_1(path, budget, GaussianSum(4, 10, units), GaussianSum(4, 10, units))
    with pytest.raises(LedgerError, match=r"0\.1.*upgrades"):
        Ledger.read(path)
    for _ in range(2):
        ledger = Ledger.open(path, OWNER, budget)
        assert ledger_answers(ledger)[1:] == before[1:]
        assert ledger.spending().epsilon == before[0].epsilon  # type: ignore[attr-defined]
        assert len(ledger.numbers.key) == 32
        ledger.close()
    ledger = Ledger.open(path, OWNER, budget)
    assert ledger.charge(bytes([9]) * 32, GaussianSum(4, 10, units))
    ledger.close()
    with sqlite3.connect(path) as connection, pytest.raises(sqlite3.IntegrityError, match="append only"):
        connection.execute("DELETE FROM secret")


def test_charges_for_unstored_records_cannot_be_continued(tmp_path: Path) -> None:
    path, budget = tmp_path / "ledger.db", Budget(2.0, 1e-5, "record", "replace-one")
    Ledger.create(path, OWNER, budget)
    ledger = Ledger.open(path, OWNER, budget)
    assert ledger.charge(bytes([1]) * 32, RecordReleased(0, "laplace", 2, 2, 1.0))
    before = ledger_answers(ledger)
    ledger.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.executescript(f"{SCHEMA_6} INSERT INTO file VALUES (1, 3);")
    ledger = Ledger.open(path, OWNER, budget)
    assert ledger_answers(ledger) == before
    with pytest.raises(PrivacyError, match="earlier version"):
        enrol_records(Records(np.zeros((3, 2)), np.zeros(3, dtype=np.int64)), ledger)
    ledger.take_up(Mandate(1, budget, b"task"))
    assert len(enrol_records(Records(np.zeros((3, 2)), np.zeros(3, dtype=np.int64)), ledger)) == 3, (
        "a new task enrols again"
    )
    ledger.close()


def test_a_ledger_without_tasks_is_migrated_with_the_same_answers(tmp_path: Path) -> None:
    """In the schema before signed tasks, records are numbered and a charge has no stamp."""
    path, budget = tmp_path / "ledger.db", BUDGETS[0]
    Ledger.create(path, OWNER, budget)
    ledger = Ledger.open(path, OWNER, budget)
    assert ledger.charge(bytes([1]) * 32, GaussianSum(4, 10))
    ledger.store(bytes([1]) * 32, StoredRelease(-3, b"12345678", False))
    before = ledger_answers(ledger)
    ledger.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.executescript(f"{SCHEMA_5} DROP TABLE task; ALTER TABLE charge DROP COLUMN stamp; PRAGMA user_version = 4;")
    with pytest.raises(LedgerError, match=r"earlier version.*upgrades"):
        Ledger.read(path)
    ledger = Ledger.open(path, OWNER, budget)
    assert ledger_answers(ledger) == before
    ledger.take_up(Mandate(1, budget, b"task"))
    ledger.close()
    with sqlite3.connect(path) as connection, pytest.raises(sqlite3.IntegrityError, match="append only"):
        connection.execute("DELETE FROM task")


def test_charges_for_records_by_position_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    path, budget = tmp_path / "ledger.db", BUDGETS[0]
    of_version_0_1(path, budget, GaussianSum(4, 10, Units(((0, 99),))))
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="position"):
        Ledger.open(path, OWNER, budget)
    assert path.read_bytes() == before


@pytest.mark.parametrize("schema, words", [(99, "newer version"), (2, "before 0.1")])
def test_another_version_is_named_and_not_reported_as_corrupt(tmp_path: Path, schema: int, words: str) -> None:
    path = tmp_path / "ledger.db"
    Ledger.create(path, OWNER, BUDGETS[0])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {schema}")
    with pytest.raises(LedgerError, match=words) as refused:
        Ledger.open(path, OWNER, BUDGETS[0])
    assert "damaged" not in str(refused.value)
