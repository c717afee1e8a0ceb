"""The privacy ledger: a charge is on the disk before the noise it pays for is drawn.

One SQLite file a device, in write-ahead mode with synchronous=FULL. Charges and releases are only ever appended. It is
made once, by `sottovoce fleet join` or the testbed, for one identity and one budget; opening never creates it.
"""

import errno
import fcntl
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sottovoce.durable import rename
from sottovoce.errors import LedgerError
from sottovoce.accounting.gaussian import MAX_EPSILON, allowed_mu, composed, gaussian_epsilon
from sottovoce.accounting.events import Event

_APPLICATION_ID = 0x50FF0CE1
_SCHEMA_VERSION = 2
_SCHEMA = """
CREATE TABLE budget (owner TEXT NOT NULL, epsilon REAL, delta REAL NOT NULL, unit TEXT NOT NULL,
                     neighbouring TEXT NOT NULL) STRICT;
CREATE TABLE charge (number INTEGER PRIMARY KEY, query BLOB NOT NULL UNIQUE,
                     record INTEGER CHECK (record >= 0), mu_squared REAL NOT NULL CHECK (mu_squared >= 0),
                     epsilon REAL NOT NULL CHECK (epsilon >= 0), terms TEXT NOT NULL,
                     CHECK (mu_squared > 0 OR epsilon > 0), CHECK (record IS NULL OR mu_squared = 0)) STRICT;
CREATE INDEX charge_of_record ON charge (record, mu_squared, epsilon);
CREATE TABLE release (query BLOB PRIMARY KEY REFERENCES charge (query), exponent INTEGER NOT NULL, value BLOB NOT NULL,
                      simulated INTEGER NOT NULL) STRICT;
CREATE TRIGGER budget_kept BEFORE DELETE ON budget BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER budget_fixed BEFORE UPDATE ON budget BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER charge_fixed BEFORE UPDATE ON charge BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER charge_kept BEFORE DELETE ON charge BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER release_fixed BEFORE UPDATE ON release BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER release_kept BEFORE DELETE ON release BEGIN SELECT RAISE(ABORT, 'append only'); END;
"""

# What pure events of one record add up to, and the most of any record. A sum of n numbers in float64 is within
# (n - 1) 2^-53 of itself; the factor is 1 for one of them.
_OF_ONE = "SELECT sum(epsilon) * (1 + (count(*) - 1) * 4.5e-16) FROM charge WHERE record = ?"
_OF_ALL = """
SELECT max(total) FROM (SELECT sum(epsilon) * (1 + (count(*) - 1) * 4.5e-16) AS total FROM charge
                        WHERE record IS NOT NULL GROUP BY record)
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
        epsilon: ε charged so far to the record charged most, at the budget's δ; infinite when something left without
            noise.
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
                    connection.execute("PRAGMA journal_mode = WAL")  # from the start: no journal to roll back, ever
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

    def charge(self, query: bytes, event: Event) -> bool:
        """Make a charge durable, once for each query.

        Args:
            query: the question's id.
            event: what its release costs; infinite cost, hence no noise, only an unlimited budget allows.

        Returns:
            True when it is charged, now or before; False when the budget cannot pay for it, and nothing changed.

        Raises:
            LedgerError: this query was charged under other terms, or the disk or the file failed: release nothing.
        """
        with self._transaction() as connection:
            if (charged := self._terms(query)) is not None:
                if charged != event.terms:
                    raise LedgerError(
                        "this query was charged under other terms, which do not pay for these: put the settings under "
                        "[learner], [data] and [privacy] back as they were"
                    )
                return True
            connection.execute(
                "INSERT INTO charge (query, record, mu_squared, epsilon, terms) VALUES (?, ?, ?, ?, ?)",
                (query, event.record, event.mu_squared, event.epsilon, event.terms),
            )
            if self.budget.epsilon is not None and self._epsilon(event.record) > self.budget.epsilon:
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

    def charged(self, query: bytes, event: Event) -> bool:
        """Whether this query was charged, and as `event`."""
        with _named():
            return self._terms(query) == event.terms

    def spending(self) -> Spending:
        """What has been spent. Asking changes nothing."""
        with _named():
            releases = self._connection.execute("SELECT count(*) FROM release").fetchone()[0]
            # Read after the releases: the agent may be at work.
            charges = self._connection.execute("SELECT count(*) FROM charge").fetchone()[0]
            return Spending(self._epsilon(None), charges, releases)

    def _terms(self, query: bytes) -> str | None:
        row = self._connection.execute("SELECT terms FROM charge WHERE query = ?", (query,)).fetchone()
        return None if row is None else str(row[0])

    def _epsilon(self, record: int | None) -> float:
        """ε charged to one record, or to the one charged most when `record` is None; rounded up.

        μ² and ε of events that touch every record add up over all of them, ε of the others over those of one record
        (accountant's module page). Both use an index: no charge costs more time for the charges to other records.
        """
        groups = self._connection.execute(
            "SELECT mu_squared, epsilon, count(*) FROM charge WHERE record IS NULL GROUP BY mu_squared, epsilon"
        ).fetchall()
        mu = math.sqrt(math.fsum(count * mu_squared for mu_squared, _, count in groups))
        own = self._connection.execute(*((_OF_ALL,) if record is None else (_OF_ONE, (record,)))).fetchone()[0]
        everywhere = math.fsum(count * epsilon for _, epsilon, count in groups)
        return composed(gaussian_epsilon(mu, self.budget.delta), everywhere, own or 0.0)

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
