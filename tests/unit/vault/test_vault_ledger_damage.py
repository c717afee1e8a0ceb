"""Corrupt ledger: refused with a remedy, and never replaced by an empty one."""

import os
import random
import resource
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from sottovoce.errors import LedgerError
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.ledger.budget import StoredRelease
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.storage.schema import PAGE_BYTES

OWNER = "meter-17"
BUDGET, EVENT = Budget(2.0, 1e-5, "record", "add-remove"), GaussianSum(10**4, 5000)


@pytest.fixture(scope="module")
def original_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed ledger with 40 charges and releases."""
    path = tmp_path_factory.mktemp("original") / "ledger.db"
    budget = Budget(2.0, 1e-5, "record", "add-remove")
    Ledger.create(path, OWNER, budget)
    ledger = Ledger.open(path, OWNER, budget)
    for number in range(40):
        ledger.charge(bytes([number]) * 32, GaussianSum(10**4, 5000))
        ledger.store(bytes([number]) * 32, StoredRelease(-3, os.urandom(800), False))
    ledger.close()
    return path


@pytest.fixture
def ledger_copy(original_ledger: Path, tmp_path: Path) -> Path:
    """A copy of that ledger."""
    return Path(shutil.copy(original_ledger, tmp_path / "used.db"))


def alter(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(statement)
    connection.close()


def replace(path: Path, make: Callable[[], None]) -> None:
    path.unlink()
    make()


def truncate(path: Path, keep: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


INDEX_PAGES = (2, 10)  # SQLite's file format: an interior page, a leaf


def forget_in_an_index(path: Path) -> None:
    """Remove entries from the index of released queries: a look-up would find no release and draw again."""
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'charge_UPDATE'")
    connection.commit()
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    content = bytearray(path.read_bytes())
    pages = [start for start in range(0, len(content), size) if content[start] in INDEX_PAGES]
    (index,) = [index for start in pages if (index := content.rfind(bytes([7]) * 32, start, start + size)) > 0]
    content[index] ^= 0xFF
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "zero length": lambda path: path.write_bytes(b""),
    "one byte": lambda path: path.write_bytes(b"S"),
    "half": lambda path: truncate(path, 0.5),
    "a page short": lambda path: path.write_bytes(path.read_bytes()[:-PAGE_BYTES]),
    "random bytes": lambda path: path.write_bytes(random.Random(1).randbytes(20_000)),
    "random middle": lambda path: path.write_bytes(
        path.read_bytes()[:8192] + random.Random(2).randbytes(8192) + path.read_bytes()[16384:]
    ),
    "text": lambda path: path.write_text("ε = 0"),
    "another program's": lambda path: alter(path, "PRAGMA application_id = 7"),
    "an index that forgot": forget_in_an_index,
    "two budgets": lambda path: alter(
        path, "INSERT INTO budget VALUES ('meter-17', 9.0, 1e-5, 'record', 'add-remove', x'00')"
    ),
    "no budget": lambda path: alter(path, "DROP TRIGGER budget_DELETE; DELETE FROM budget"),
    "a fresh database": lambda path: replace(path, lambda: alter(path, "CREATE TABLE charge (query BLOB)")),
    "a directory": lambda path: replace(path, path.mkdir),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_corruption_is_refused_with_a_remedy(ledger_copy: Path, budget: Budget, damage: str) -> None:
    DAMAGES[damage](ledger_copy)
    before = ledger_copy.read_bytes() if ledger_copy.is_file() else None
    attempts: list[Callable[[], object]] = [
        lambda: Ledger.open(ledger_copy, OWNER, budget),
        lambda: Ledger.read(ledger_copy),
    ]
    for attempt in attempts:
        with pytest.raises(LedgerError, match=r"Restore|recover|no ledger") as caught:
            attempt()
        assert str(ledger_copy) in str(caught.value)
    assert (ledger_copy.read_bytes() if ledger_copy.is_file() else None) == before


def test_overwritten_bytes_are_detected_or_lose_no_charge(ledger_copy: Path, budget: Budget) -> None:
    """Whatever 64 bytes are overwritten, the ledger is refused, or every charge still counts."""
    content = ledger_copy.read_bytes()
    rng = random.Random(3)
    refused = 0
    for _ in range(60):
        index = rng.randrange(len(content) - 64)
        ledger_copy.write_bytes(content[:index] + b"\xff" * 64 + content[index + 64 :])
        try:
            ledger = Ledger.open(ledger_copy, OWNER, budget)
        except LedgerError:
            refused += 1
            continue
        spending = ledger.spending()
        ledger.close()
        assert (spending.charges, spending.releases) == (40, 40)
    assert refused > 5


def test_a_wrong_path_is_named(tmp_path: Path, budget: Budget) -> None:
    nowhere = tmp_path / "no" / "such" / "ledger.db"
    for attempt in (
        lambda: Ledger.open(nowhere, OWNER, budget),
        lambda: Ledger.read(nowhere),
        lambda: Ledger.create(nowhere, OWNER, budget),
    ):
        with pytest.raises(LedgerError, match=r"no/such/ledger\.db"):
            attempt()
    assert not (tmp_path / "no").exists()


@contextmanager
def full_disk(ledger: Ledger) -> Iterator[None]:
    """Allow no further page."""
    pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
    ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
    yield
    ledger._connection.execute("PRAGMA max_page_count = 1000000")


@contextmanager
def failing_disk(ledger: Ledger) -> Iterator[None]:
    """Make writes past the file's end fail in the operating system."""
    path = Path(ledger._connection.execute("PRAGMA database_list").fetchone()[2])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name(path.name + "-wal").stat().st_size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fill(ledger: Ledger) -> None:
    for number in range(2, 200):
        query = number.to_bytes(32, "big")
        ledger.charge(query, GaussianSum(100, 10**6))
        ledger.store(query, StoredRelease(-3, bytes(5000), False))


@pytest.mark.parametrize("disk", [full_disk, failing_disk])
def test_a_full_disk_stops_releases_and_keeps_the_content(
    path: Path, budget: Budget, disk: Callable[[Ledger], AbstractContextManager[None]]
) -> None:
    ledger = Ledger.open(path, OWNER, budget)
    ledger.charge(b"1" * 32, GaussianSum(100, 1000))
    with disk(ledger), pytest.raises(LedgerError, match="disk"):
        fill(ledger)
    charges = ledger.spending().charges
    assert charges < 200
    assert ledger.charge(b"2" * 32, GaussianSum(100, 1000))
    ledger.store(b"2" * 32, StoredRelease(-3, bytes(5000), False))
    assert ledger.spending().charges == charges + 1
    ledger.close()
    Ledger.open(path, OWNER, budget).close()


def test_removing_an_open_log_stops_charging_and_a_stop_restores_it(ledger_copy: Path) -> None:
    ledger = Ledger.open(ledger_copy, OWNER, BUDGET)
    assert ledger.charge(b"x" * 32, EVENT)
    before = ledger.head().charges
    ledger_copy.with_name(ledger_copy.name + "-wal").unlink()
    with pytest.raises(LedgerError, match=r"-wal.*SIGTERM"):
        ledger.charge(b"y" * 32, EVENT)
    with pytest.raises(LedgerError, match="was removed"):
        Ledger.read(ledger_copy)
    ledger.close()
    reopened = Ledger.open(ledger_copy, OWNER, BUDGET)
    assert reopened.head().charges >= before
    reopened.close()


@pytest.mark.process
def test_a_log_removed_after_a_crash_is_detected(ledger_copy: Path) -> None:
    """Otherwise, a ledger without its last charges would charge again."""
    child = os.fork()
    if child == 0:
        Ledger.open(ledger_copy, OWNER, BUDGET).charge(b"x" * 32, EVENT)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    ledger_copy.with_name(ledger_copy.name + "-wal").unlink()
    with pytest.raises(LedgerError, match="restore"):
        Ledger.open(ledger_copy, OWNER, BUDGET)
    with pytest.raises(LedgerError, match="restore"):
        Ledger.read(ledger_copy)
