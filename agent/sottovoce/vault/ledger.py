"""The privacy ledger: a charge is on the disk before the noise it pays for is drawn.

One SQLite file a device, in write-ahead mode with synchronous=FULL. Charges and releases are only ever appended, and
every charge's link is a hash over all before it. The file is made once, by `sottovoce fleet join` or the testbed, for
one identity and one budget; opening never creates it.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Self

from sottovoce.accounting.events import Event
from sottovoce.accounting.stored import event_of
from sottovoce.accounting.tally import Tally
from sottovoce.accounting.units import Units
from sottovoce.durable import rename
from sottovoce.errors import LedgerError, PrivacyError
from sottovoce.schema import PAGE_BYTES
from sottovoce.vault.belonging import check_budget, check_owner, check_there
from sottovoce.vault.budget import Budget, Spending, Stored
from sottovoce.vault.chain import Head, Tip, first_link, mark, next_link, release_digest
from sottovoce.vault.keepers import Keeper, written
from sottovoce.vault.keepers import read as read_keepers
from sottovoce.vault.ledger_file import (
    KEY_BYTES,
    checked,
    connect,
    fill,
    locked,
    log_is_damaged,
    named,
    refuse_without_log,
    upgrade,
)
from sottovoce.vault.wear import Wear


class Ledger:
    """An open ledger. Use `create` once in a device's life, and `open` ever after.

    Args:
        connection: to a database that is whole.
        lock: an open descriptor that holds the lock of the file, or None for a ledger in memory or only read.
        path: of the file; None for a ledger in memory.

    Raises:
        LedgerError: the chain of charges is broken.
    """

    def __init__(self, connection: sqlite3.Connection, lock: int | None, path: Path | None) -> None:
        self._path = path
        self._connection = connection
        self._lock = lock
        self._wear: Wear | None = None
        self.owner, self.budget, self.nonce = checked(connection)
        self._tally = Tally(self.budget.delta)
        self._head = Head(0, first_link(self.budget.made_for(self.owner), self.nonce))
        self._check_releases()

    @classmethod
    def create(cls, path: Path, owner: str, budget: Budget) -> None:
        """Make the ledger of `owner` with `budget`, durably.

        Raises:
            LedgerError: there is one already, or a part of one, or it cannot be written.
        """
        draft = path.with_name(path.name + ".new")
        with named(path):
            lock = locked(path)
            try:
                if path.exists() or path.with_name(path.name + "-wal").exists():
                    raise LedgerError(f"{path}: a ledger exists already and is never replaced; it holds what was spent")
                draft.unlink(missing_ok=True)
                with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
                    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                    connection.execute("PRAGMA journal_mode = WAL")  # from the start: no journal to roll back, ever
                    fill(connection, owner, budget, os.urandom(KEY_BYTES))
                draft.chmod(0o600)
                rename(draft, path)
            finally:
                os.close(lock)

    @classmethod
    def in_memory(cls, owner: str, budget: Budget) -> Self:
        """A ledger for a simulated device; it lasts as long as the object. Its key is the same in every run."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        fill(connection, owner, budget, sha256(owner.encode()).digest())
        return cls(connection, None, None)

    @classmethod
    def open(cls, path: Path, owner: str, budget: Budget) -> Self:
        """Open `owner`'s ledger for charging, and lock it.

        Raises:
            LedgerError: it is missing, damaged, in use, another device's, or made for another budget.
        """
        with named(path), ExitStack() as stack:
            check_there(path)
            lock = locked(path)
            stack.callback(os.close, lock)
            refuse_without_log(path)
            upgrade(path)
            checking = stack.enter_context(closing(connect(path, "ro")))  # so that a file refused stays as it is
            ledger = cls(checking, lock, path)
            if (moved := ledger.ended()) is not None:
                raise LedgerError(
                    f"{path}: this ledger was moved to {moved[1]} and has ended here for good; run the device "
                    "from there"
                )
            if log_is_damaged(path):
                raise sqlite3.DatabaseError("its log is damaged in the middle: charges behind that place are lost")
            check_owner(path, ledger.owner, owner)
            check_budget(path, ledger.budget, budget)
            # Whoever closes a file gives up all locks that the process has on it, and the log's index was read above:
            # the connection that stays takes them anew.
            checking.close()
            ledger._connection = stack.enter_context(closing(connect(path, "rw")))
            ledger._connection.execute("PRAGMA synchronous = FULL")
            ledger._connection.execute("PRAGMA journal_mode = WAL")
            real = path.resolve()
            ledger._wear = Wear(real.with_name(real.name + "-wal"))
            stack.pop_all()
            return ledger

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open any ledger for reading only, also while its agent runs.

        Raises:
            LedgerError: it is missing or damaged.
        """
        with named(path), ExitStack() as stack:
            if not path.is_file():
                raise LedgerError(
                    f"{path}: there is no ledger here; give the state directory made by `sottovoce fleet join`"
                )
            refuse_without_log(path)
            ledger = cls(stack.enter_context(closing(connect(path, "ro"))), None, path)
            stack.pop_all()
            return ledger

    def close(self) -> None:
        """Close and unlock."""
        self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def ended(self) -> tuple[str, str] | None:
        """The move by which this ledger ended: its nonce, and where to; None while it goes on."""
        with named(self._path):
            row = self._connection.execute("SELECT nonce, target FROM ended").fetchone()
        return None if row is None else (str(row[0]), str(row[1]))

    def copy(self, path: Path) -> None:
        """The ledger as it is now, into a file that is not there yet.

        Raises:
            LedgerError: the disk or the file failed.
        """
        with named(path), closing(sqlite3.connect(path, isolation_level=None)) as other:
            self._connection.backup(other)
            other.execute("PRAGMA journal_mode = WAL")
        path.chmod(0o600)

    def end(self, nonce: str, target: str) -> None:
        """Charge nothing more, ever.

        Raises:
            LedgerError: the disk or the file failed.
        """
        with self._transaction() as connection:
            connection.execute("INSERT INTO ended VALUES (?, ?)", (nonce, target))

    @property
    def key(self) -> bytes:
        """What records are numbered by. It never leaves the vault."""
        with named(self._path):
            return bytes(self._connection.execute("SELECT key FROM secret").fetchone()[0])

    def enrol(self, digests: Sequence[bytes]) -> list[int]:
        """The numbers of the records of a file, durably; -1 for those that have none.

        A file with more records than any before gives those that were never met the numbers of their places, behind the
        numbers of earlier such files. Other files give none.

        Args:
            digests: different from each other, in the file's order.

        Raises:
            LedgerError: the disk or the file failed.
        """
        with self._transaction() as connection:
            held: dict[bytes, int | None] = dict(connection.execute("SELECT digest, number FROM record"))
            files = self.files()
            grown, first = len(digests) > max(files, default=0), sum(files)
            if grown:
                connection.execute("INSERT INTO file (records) VALUES (?)", (len(digests),))
            for place, digest in enumerate(digests):
                if digest not in held:
                    held[digest] = first + place if grown else None
                    connection.execute("INSERT INTO record VALUES (?, ?)", (digest, held[digest]))
        return [-1 if (number := held[digest]) is None else number for digest in digests]

    def files(self) -> tuple[int, ...]:
        """How many records each file had that gave numbers: so many numbers are taken."""
        with named(self._path):
            return tuple(int(row[0]) for row in self._connection.execute("SELECT records FROM file ORDER BY number"))

    @property
    def first_file(self) -> int:
        """How many records the first of them had; 0 while there is none."""
        return next(iter(self.files()), 0)

    def keepers(self) -> tuple[Keeper, ...]:
        """Who keeps its newest head: those named last."""
        with named(self._path):
            row = self._connection.execute("SELECT named FROM keepers ORDER BY number DESC LIMIT 1").fetchone()
            try:
                return () if row is None else read_keepers(row[0])
            except ValueError as error:
                raise sqlite3.DatabaseError("its keepers are none") from error

    def appoint(self, keepers: tuple[Keeper, ...]) -> None:
        """Name those who keep its newest head from now on, durably.

        Raises:
            LedgerError: the disk or the file failed.
        """
        with self._transaction() as connection:
            connection.execute("INSERT INTO keepers (named) VALUES (?)", (written(keepers),))

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
            charged = self._terms(query)
            if charged is not None and charged != event.terms:
                raise LedgerError(
                    "this query was charged under other terms, which do not pay for these: put the settings under "
                    "[learner], [data] and [privacy] back as they were"
                )
            if charged is not None:
                return True
            if self.payable(event) != event.units:
                return False
            head = self.head()
            connection.execute(
                "INSERT INTO charge VALUES (?, ?, ?, ?)",
                (head.charges + 1, query, event.terms, next_link(head.link, query, event.terms)),
            )
        return True

    def payable(self, event: Event) -> Units | None:
        """Those units of `event` that can pay for it; None when there is none."""
        self._catch_up()
        return event.units if self.budget.epsilon is None else self._tally.payable(event, self.budget.epsilon)

    def store(self, query: bytes, release: Stored) -> None:
        """Make a release durable, before anybody sees it.

        Raises:
            LedgerError: it was never charged, or exists already, or the disk failed.
        """
        with self._transaction() as connection:
            row = connection.execute("SELECT number, link FROM charge WHERE query = ?", (query,)).fetchone()
            if row is None:
                raise LedgerError("a release was about to be stored without its charge; nothing left the device")
            digest = release_digest(row[1], release.exponent, release.value, release.simulated)
            connection.execute(
                "INSERT INTO release VALUES (?, ?, ?, ?, ?)",
                (row[0], release.exponent, release.value, release.simulated, digest),
            )

    def stored(self, query: bytes) -> Stored | None:
        """What was released for this query, if it was answered before."""
        with named(self._path):
            row = self._connection.execute(
                "SELECT exponent, value, simulated FROM release JOIN charge USING (number) WHERE query = ?", (query,)
            ).fetchone()
        return None if row is None else Stored(int(row[0]), bytes(row[1]), bool(row[2]))

    def charged(self, query: bytes) -> Event | None:
        """The charge made for this query, if there is one."""
        with named(self._path):
            terms = self._terms(query)
        return None if terms is None else event_of(terms)

    def spending(self) -> Spending:
        """What has been spent. Asking changes nothing."""
        with named(self._path):
            releases = self._connection.execute("SELECT count(*) FROM release").fetchone()[0]
            # Read after the releases: the agent may be at work.
            charges = self.head().charges
        return Spending(self._tally.epsilon(), charges, releases, self._wear.today if self._wear else 0)

    def spent(self, units: Units) -> float:
        """ε charged so far to the unit charged most among these."""
        self._catch_up()
        return self._tally.epsilon(units)

    def head(self) -> Head:
        """How far the chain has come."""
        self._catch_up()
        return self._head

    def link(self, charges: int) -> bytes | None:
        """The link of the charge of this number, or the first link for 0; None for one that was never made."""
        if charges == 0:
            return first_link(self.budget.made_for(self.owner), self.nonce)
        with named(self._path):
            row = self._connection.execute("SELECT link FROM charge WHERE number = ?", (charges,)).fetchone()
        return None if row is None else bytes(row[0])

    def tip(self) -> Tip:
        """What peers are told of it."""
        charges = self.head().charges
        with named(self._path):
            released = self._connection.execute("SELECT ifnull(max(number), 0) FROM release").fetchone()[0]
        found = self.mark(charges, released)
        if found is None:
            raise LedgerError("the privacy ledger lost a charge while it was read: nothing was released")
        return Tip(charges, released, found)

    def mark(self, charges: int, released: int) -> bytes | None:
        """The mark it had with this newest charge and this newest release; None when it never held one of them."""
        link = self.link(charges)
        with named(self._path):
            row = self._connection.execute("SELECT digest FROM release WHERE number = ?", (released,)).fetchone()
        if link is None or (row is None and released):
            return None
        return mark(link, bytes(row[0]) if row else b"")

    def charges(self) -> Iterator[tuple[bytes, str]]:
        """Every charge made, in order: its query's id and its terms."""
        with named(self._path):
            yield from self._connection.execute("SELECT query, terms FROM charge ORDER BY number").fetchall()

    def _terms(self, query: bytes) -> str | None:
        row = self._connection.execute("SELECT terms FROM charge WHERE query = ?", (query,)).fetchone()
        return None if row is None else str(row[0])

    def _catch_up(self) -> None:
        """Follow the chain over charges not yet tallied. Only what the file holds is ever tallied."""
        with named(self._path):
            rows = self._connection.execute(
                "SELECT number, query, terms, link FROM charge WHERE number > ? ORDER BY number", (self._head.charges,)
            )
            for number, query, terms, link in rows:
                expected = Head(self._head.charges + 1, next_link(self._head.link, query, terms))
                if Head(number, link) != expected:
                    raise sqlite3.DatabaseError(f"its chain of charges is broken at charge {expected.charges}")
                try:
                    event = event_of(terms)
                except PrivacyError as error:
                    raise sqlite3.DatabaseError(f"it holds {error}") from error
                self._tally.add(event)
                self._head = expected

    def _check_releases(self) -> None:
        """Every release is what was stored, for a charge that was made."""
        self._catch_up()
        rows = self._connection.execute(
            "SELECT release.number, link, exponent, value, simulated, digest "
            "FROM release LEFT JOIN charge USING (number)"
        )
        for number, link, exponent, value, simulated, digest in rows:
            if link is None or release_digest(link, exponent, value, bool(simulated)) != digest:
                raise sqlite3.DatabaseError(f"its release {number} is not what was stored")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with named(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
                if self._wear is not None:
                    self._wear.count()
                    refuse_without_log(self._path)
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
