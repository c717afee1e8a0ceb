"""The privacy ledger: a charge is on the disk before the noise it pays for is drawn.

One SQLite file a device, in write-ahead mode with synchronous=FULL. Charges and releases are only ever appended. It is
made once, by `sottovoce fleet join` or the testbed, for one identity and one budget; opening never creates it.
"""

import errno
import fcntl
import math
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sottovoce.durable import rename
from sottovoce.errors import LedgerError
from sottovoce.vault.accountant import MAX_EPSILON, gaussian_epsilon
from sottovoce.vault.mechanism import allowed_mu, mu_squared

_APPLICATION_ID = 0x50FF0CE1
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE budget (owner TEXT NOT NULL, epsilon REAL, delta REAL NOT NULL, unit TEXT NOT NULL,
                     neighbouring TEXT NOT NULL) STRICT;
CREATE TABLE charge (number INTEGER PRIMARY KEY, query BLOB NOT NULL UNIQUE,
                     sensitivity_squared INTEGER NOT NULL CHECK (sensitivity_squared > 0),
                     sigma INTEGER NOT NULL CHECK (sigma >= 0)) STRICT;
CREATE TABLE release (query BLOB PRIMARY KEY REFERENCES charge (query), exponent INTEGER NOT NULL, value BLOB NOT NULL,
                      simulated INTEGER NOT NULL) STRICT;
CREATE TRIGGER budget_kept BEFORE DELETE ON budget BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER budget_fixed BEFORE UPDATE ON budget BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER charge_fixed BEFORE UPDATE ON charge BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER charge_kept BEFORE DELETE ON charge BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER release_fixed BEFORE UPDATE ON release BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER release_kept BEFORE DELETE ON release BEGIN SELECT RAISE(ABORT, 'append only'); END;
"""

_DISK = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO}
_ACCESS = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@dataclass(frozen=True, slots=True)
class Budget:
    """What one privacy unit may cost in all.

    Attributes:
        epsilon: total ε; None for the noiseless baseline, which promises nothing.
        delta: total δ.
        unit: for example `record`.
        neighbouring: `add-remove` or `replace-one`.
    """

    epsilon: float | None
    delta: float
    unit: str
    neighbouring: str

    def __post_init__(self) -> None:
        """Raises PrivacyError for a budget that promises nothing; ε = None says so itself."""
        allowed_mu(MAX_EPSILON if self.epsilon is None else self.epsilon, self.delta)


@dataclass(frozen=True, slots=True)
class Spending:
    """What the ledger says has been spent.

    Attributes:
        epsilon: ε charged so far at the budget's δ; infinite when something left without noise.
        charges: releases paid for.
        releases: releases made; never more than charges.
    """

    epsilon: float
    charges: int
    releases: int

    @property
    def promised_epsilon(self) -> float | None:
        """The same ε; None when it is infinite, because nothing is promised then."""
        return self.epsilon if math.isfinite(self.epsilon) else None


@dataclass(frozen=True, slots=True)
class Stored:
    """A release as the ledger keeps it.

    Attributes:
        exponent: the grid step is 2**exponent.
        value: int64[P], little-endian.
        simulated: the noise came from a seeded stream.
    """

    exponent: int
    value: bytes
    simulated: bool


class Ledger:
    """An open ledger. Use `create` once in a device's life, and `open` ever after.

    Args:
        connection: to the database.
        lock: an open descriptor that holds the lock of the file, or None for a ledger in memory or only read.
    """

    def __init__(self, connection: sqlite3.Connection, budget: Budget, lock: int | None) -> None:
        self._connection = connection
        self._lock = lock
        self.budget = budget

    @classmethod
    def create(cls, path: Path, owner: str, budget: Budget) -> None:
        """Make the ledger of `owner` with `budget`, durably.

        Raises:
            LedgerError: there is one already, or a part of one, or it cannot be written.
        """
        draft = path.with_name(path.name + ".new")
        with _named(path):
            lock = _lock(path)
            try:
                if path.exists() or path.with_name(path.name + "-wal").exists():
                    raise LedgerError(f"{path}: a ledger exists already and is never replaced; it holds what was spent")
                draft.unlink(missing_ok=True)
                with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
                    _fill(connection, owner, budget)
                draft.chmod(0o600)
                rename(draft, path)
            finally:
                os.close(lock)

    @classmethod
    def in_memory(cls, owner: str, budget: Budget) -> Self:
        """A ledger for a simulated device; it lasts as long as the object."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        _fill(connection, owner, budget)
        return cls(connection, budget, None)

    @classmethod
    def open(cls, path: Path, owner: str, budget: Budget) -> Self:
        """Open `owner`'s ledger for charging, and lock it.

        Raises:
            LedgerError: it is missing, damaged, in use, another device's, or made for another budget.
        """
        with _named(path), ExitStack() as stack:
            if not path.is_file():
                raise LedgerError(
                    f"{path}: the privacy ledger is missing, so what was already spent is unknown and nothing may be "
                    "released. Put the file itself back, not an older copy; without it this identity can never release "
                    "again, and a new device has to join"
                )
            lock = _lock(path)
            stack.callback(os.close, lock)
            connection = stack.enter_context(closing(_connect(path, "rw")))
            connection.execute("PRAGMA synchronous = FULL")
            found_owner, found = _checked(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            if found_owner != owner:
                raise LedgerError(f"{path}: this ledger belongs to device {found_owner}, not to {owner}")
            if found != budget:
                raise LedgerError(
                    f"{path}: the ledger was made for {_words(found)}, the configuration says {_words(budget)}; "
                    "put the ledger's values under [privacy]"
                )
            stack.pop_all()
            return cls(connection, found, lock)

    @classmethod
    def read(cls, path: Path) -> tuple[Self, str]:
        """Open any ledger for reading only, also while its agent runs; returns it and its owner.

        Raises:
            LedgerError: it is missing or damaged.
        """
        with _named(path), ExitStack() as stack:
            if not path.is_file():
                raise LedgerError(
                    f"{path}: there is no ledger here; give the state directory made by `sottovoce fleet join`"
                )
            connection = stack.enter_context(closing(_connect(path, "ro")))
            owner, budget = _checked(connection)
            stack.pop_all()
            return cls(connection, budget, None), owner

    def close(self) -> None:
        """Close and unlock."""
        self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def charge(self, query: bytes, sensitivity_squared: int, sigma: int) -> bool:
        """Make a charge durable, once for each query.

        Args:
            query: the question's id.
            sensitivity_squared: squared L2 sensitivity in squared grid units.
            sigma: the noise's σ in grid units; 0 for no noise, which only an unlimited budget allows.

        Returns:
            True when it is charged, now or before; False when the budget cannot pay for it, and nothing changed.

        Raises:
            LedgerError: this query was charged under other terms, or the disk or the file failed: release nothing.
        """
        terms = (sensitivity_squared, sigma)
        with self._transaction() as connection:
            before = connection.execute("SELECT sensitivity_squared, sigma FROM charge WHERE query = ?", (query,))
            if (charged := before.fetchone()) is not None:
                if charged != terms:
                    raise LedgerError(
                        "this query was charged under other terms, which do not pay for these: "
                        "put learner.clip, learner.steps and the model back as they were"
                    )
                return True
            connection.execute(
                "INSERT INTO charge (query, sensitivity_squared, sigma) VALUES (?, ?, ?)", (query, *terms)
            )
            if self.budget.epsilon is not None and self._epsilon(self._charges()) > self.budget.epsilon:
                connection.execute("ROLLBACK")
                return False
        return True

    def store(self, query: bytes, release: Stored) -> None:
        """Make a release durable, before anybody sees it.

        Raises:
            LedgerError: it was never charged, or exists already, or the disk failed.
        """
        with self._transaction() as connection:
            if not connection.execute("SELECT 1 FROM charge WHERE query = ?", (query,)).fetchone():
                raise LedgerError("a release was about to be stored without its charge; nothing left the device")
            row = (query, release.exponent, release.value, release.simulated)
            connection.execute("INSERT INTO release VALUES (?, ?, ?, ?)", row)

    def stored(self, query: bytes) -> Stored | None:
        """What was released for this query, if it was answered before."""
        with _named():
            rows = self._connection.execute("SELECT exponent, value, simulated FROM release WHERE query = ?", (query,))
            row = rows.fetchone()
        return None if row is None else Stored(int(row[0]), bytes(row[1]), bool(row[2]))

    def spending(self) -> Spending:
        """What has been spent. Asking changes nothing."""
        with _named():
            releases = self._connection.execute("SELECT count(*) FROM release").fetchone()[0]
            charges = self._charges()  # read after the releases: the agent may be at work
            return Spending(self._epsilon(charges), charges.total(), releases)

    def _charges(self) -> Counter[tuple[int, int]]:
        """How often each (squared sensitivity, σ) was charged."""
        rows = self._connection.execute(
            "SELECT sensitivity_squared, sigma, count(*) FROM charge GROUP BY sensitivity_squared, sigma"
        )
        return Counter({(squared, sigma): count for squared, sigma, count in rows})

    def _epsilon(self, charges: Counter[tuple[int, int]]) -> float:
        """ε of these charges: every release touches every record, so their μ² add up (accountant's module page)."""
        return gaussian_epsilon(
            math.sqrt(math.fsum(count * mu_squared(*terms) for terms, count in charges.items())), self.budget.delta
        )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _named():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                if self._connection.in_transaction:  # not rolled back by the block itself
                    self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _fill(connection: sqlite3.Connection, owner: str, budget: Budget) -> None:
    connection.executescript(
        f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {_SCHEMA_VERSION}; {_SCHEMA}"
    )
    connection.execute(
        "INSERT INTO budget VALUES (?, ?, ?, ?, ?)",
        (owner, budget.epsilon, budget.delta, budget.unit, budget.neighbouring),
    )


def _lock(path: Path) -> int:
    """A descriptor that holds the lock of the ledger; it is a file of its own, since SQLite locks the ledger's."""
    real = path.resolve()
    lock = os.open(real.with_name(real.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise LedgerError(f"{path}: another agent is using this ledger; stop it first") from error
    return lock


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"file:{_quoted(path)}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10)


def _checked(connection: sqlite3.Connection) -> tuple[str, Budget]:
    """The owner and the budget of a ledger that is whole, indices included: they tell what was answered before."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != _APPLICATION_ID:
        raise sqlite3.DatabaseError("it is not a Sottovoce ledger")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != _SCHEMA_VERSION:
        raise sqlite3.DatabaseError(f"its schema is version {version}, this program reads {_SCHEMA_VERSION}")
    verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
    if verdict != "ok":
        raise sqlite3.DatabaseError(str(verdict))
    rows = connection.execute("SELECT * FROM budget").fetchall()
    if len(rows) != 1:
        raise sqlite3.DatabaseError("it holds no budget")
    owner, epsilon, delta, unit, neighbouring = rows[0]
    return owner, Budget(epsilon, delta, unit, neighbouring)


@contextmanager
def _named(path: Path | None = None) -> Iterator[None]:
    """Turn the errors of SQLite and of the file system into one that names the ledger and the remedy."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        where = f"{path}: the privacy ledger" if path else "the privacy ledger"
        raise LedgerError(
            f"{where} cannot be used ({error}): nothing was released. Remedy: {_remedy(error)}"
        ) from error


def _remedy(error: sqlite3.Error | OSError) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of it says where SQLite met the error
    if code in _DISK or getattr(error, "errno", None) in _DISK_ERRORS:
        return "make room on its disk, or replace the disk"
    if code in _ACCESS or isinstance(error, OSError):
        return "let the agent's user write it and its directory, and nobody else"
    if code in _BUSY:
        return "stop the other program that has it open"
    return "restore it from the device itself or retire this identity; it is never replaced by an empty one"


def _words(budget: Budget) -> str:
    epsilon = "no ε" if budget.epsilon is None else f"ε = {budget.epsilon:g}"
    return f"{epsilon}, δ = {budget.delta:g}, {budget.unit} level, {budget.neighbouring}"


def _quoted(path: Path) -> str:
    return str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
