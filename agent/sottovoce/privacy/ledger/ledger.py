"""The privacy ledger: a charge is on disk before the noise that it pays for is drawn.

A device has a single SQLite file, in write-ahead mode with synchronous=FULL. Charges and releases can only be appended,
and each charge's link is a hash of it and all earlier charges. The file is created once, by `sottovoce fleet join` or
the testbed, for one identity and one budget; opening it never creates it.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Self

from sottovoce.errors import LedgerError, PrivacyError
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.accounting.events import Event
from sottovoce.privacy.accounting.units import LAST, Units
from sottovoce.privacy.ledger.binding import check_budget, check_ledger_exists, check_owner
from sottovoce.privacy.ledger.budget import Budget, PeriodSpending, Spending, StoredRelease, TaskSpending
from sottovoce.privacy.ledger.chain import Head, LedgerPosition, first_link, mark, next_link, release_digest
from sottovoce.privacy.ledger.charge_totals import ChargeTotals
from sottovoce.privacy.ledger.clocks import DAY, RunningTime, uptime
from sottovoce.privacy.ledger.ledger_file import (
    KEY_BYTES,
    acquire_lock,
    check_log_present,
    check_releases,
    connect,
    create_tables,
    is_log_corrupt,
    read_verified_header,
    translate_errors,
    upgrade,
)
from sottovoce.privacy.ledger.limits import Limit, Periods, Span, read_limits, record_span_start
from sottovoce.privacy.ledger.mandate import Mandate, MandateList
from sottovoce.privacy.ledger.record_numbers import RecordNumbers
from sottovoce.privacy.ledger.witnesses import WitnessList
from sottovoce.storage.disk_writes import DailyTotal, DiskWriteCounter
from sottovoce.storage.durable import rename
from sottovoce.storage.schema import PAGE_BYTES, use_log

_BLOCK_BYTES, _IF_CORRUPT_BYTES = 2**18, 2**24  # some 60 charges; a quarter of the default of ledger.bytes_per_day


class Ledger:
    """An open ledger. Call `create` once in a device's lifetime, and `open` afterwards.

    Args:
        connection: connection to an intact database.
        lock: open descriptor with the file's lock; None for a ledger that is in memory or read-only.
        path: path to the file; None for a ledger in memory.

    Attributes:
        mandate: the task accepted last; None if no task has been accepted.
        running_time: running time of the ledger's vault.

    Raises:
        LedgerError: if the chain of charges is broken.
    """

    def __init__(self, connection: sqlite3.Connection, lock: int | None, path: Path | None) -> None:
        self._path = path
        self._connection = connection
        self._lock = lock
        self._disk_writes: DiskWriteCounter | None = None
        self._head: Head
        self._spent: ChargeTotals
        self.owner, self.own_budget, self.nonce = read_verified_header(connection)
        # A task's records are stored once, and overwritten once. Counting these bytes would make the vault pause
        # without sparing the disk anything.
        uncounted = partial(self._transaction, counted=False)
        self.numbers = RecordNumbers(self._read_access, uncounted)
        self.witnesses = WitnessList(self._read_access, self._transaction)
        self._mandates = MandateList(self._read_access, uncounted)
        self.mandate, self.running_time = self._mandates.load_newest(), RunningTime(self._read_access)
        self.periods = Periods(self._read_access, self.running_time)
        self._tally_charges(())
        check_releases(connection)

    @classmethod
    def create(cls, path: Path, owner: str, budget: Budget) -> None:
        """Create `owner`'s ledger with `budget`, durably.

        Raises:
            LedgerError: if a ledger, or part of one, already exists, or if the ledger cannot be written.
        """
        draft = path.with_name(path.name + ".new")
        with translate_errors(path):
            lock = acquire_lock(path)
            try:
                if path.exists() or path.with_name(path.name + "-wal").exists():
                    raise LedgerError(
                        f"{path}: a ledger already exists and is never replaced, because it records the budget spent"
                    )
                draft.unlink(missing_ok=True)
                with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
                    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                    connection.execute("PRAGMA journal_mode = WAL")  # ensures that there is never a rollback journal
                    create_tables(connection, owner, budget, os.urandom(KEY_BYTES))
                draft.chmod(0o600)
                rename(draft, path)
            finally:
                os.close(lock)

    @classmethod
    def in_memory(cls, owner: str, budget: Budget, connection: sqlite3.Connection | None = None) -> Self:
        """Return an in-memory ledger for a simulated device, which lasts only as long as the object. Its key is fixed.

        Args:
            owner: the device's node id.
            budget: largest cost of one unit.
            connection: connection to an empty database; None for a new one.
        """
        connection = connection or sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        create_tables(connection, owner, budget, sha256(owner.encode()).digest())
        return cls(connection, None, None)

    @classmethod
    def open(cls, path: Path, owner: str, budget: Budget) -> Self:
        """Open and lock `owner`'s ledger for charging.

        Raises:
            LedgerError: if the ledger is missing, corrupt, in use, or was created for another device or budget.
        """
        with translate_errors(path), ExitStack() as stack:
            check_ledger_exists(path)
            lock = acquire_lock(path)
            stack.callback(os.close, lock)
            check_log_present(path)
            upgrade(path)
            reader = stack.enter_context(closing(connect(path, "ro")))  # leaves a refused file unchanged
            ledger = cls(reader, lock, path)
            if (move := ledger.ending_move()) is not None:
                raise LedgerError(
                    f"{path}: this ledger was moved to {move[1]}, and the copy left here is permanently closed; run "
                    "the device there instead"
                )
            if is_log_corrupt(path):
                raise sqlite3.DatabaseError("the log is corrupt in the middle: charges after that point are lost")
            check_owner(path, ledger.owner, owner)
            check_budget(path, ledger.own_budget, budget)
            # `is_log_corrupt` has read and closed the log's index, which released all of this process's locks on it.
            # The connection opened below acquires the locks again.
            reader.close()
            ledger._connection = stack.enter_context(closing(connect(path, "rw")))
            use_log(ledger._connection)
            ledger._connection.execute("PRAGMA secure_delete = ON")  # overwrites the records of earlier tasks
            resolved = path.resolve()
            written = DailyTotal(resolved.with_name(resolved.name + ".written"), _BLOCK_BYTES, _IF_CORRUPT_BYTES)
            stack.callback(written.close)
            ledger._disk_writes = DiskWriteCounter(resolved.with_name(resolved.name + "-wal"), written)
            stack.pop_all()
            return ledger

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open any ledger read-only, even while its agent is running.

        Raises:
            LedgerError: if the ledger is missing or corrupt.
        """
        with translate_errors(path), ExitStack() as stack:
            if not path.is_file():
                raise LedgerError(
                    f"{path}: there is no ledger here; specify the state directory created by `sottovoce fleet join`"
                )
            check_log_present(path)
            ledger = cls(stack.enter_context(closing(connect(path, "ro"))), None, path)
            stack.pop_all()
            return ledger

    def close(self) -> None:
        """Record the running time, and close and unlock the ledger."""
        with suppress(LedgerError):
            self.record_running_time(ending=True)
        if self._disk_writes is not None:
            self._disk_writes.close()
        self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def ending_move(self) -> tuple[str, str] | None:
        """Return the nonce and target of the move that ended this ledger, or None if the ledger has not ended."""
        with self._read_access() as connection:
            row = connection.execute("SELECT nonce, target FROM ended").fetchone()
        return None if row is None else (str(row[0]), str(row[1]))

    def copy(self, path: Path) -> None:
        """Copy the ledger's current state to a file that does not exist yet.

        Raises:
            LedgerError: if the ledger cannot be copied.
        """
        with translate_errors(path), closing(sqlite3.connect(path, isolation_level=None)) as copy:
            self._connection.backup(copy)
            copy.execute("PRAGMA journal_mode = WAL")
        path.chmod(0o600)

    def end(self, nonce: str, target: str) -> None:
        """End the ledger because it moves elsewhere; it accepts no further charges.

        Args:
            nonce: nonce of the move.
            target: target of the move.

        Raises:
            LedgerError: if the ledger file cannot be written.
        """
        with self._transaction() as connection:
            connection.execute("INSERT INTO ended VALUES (?, ?)", (nonce, target))

    def charge(self, query: bytes, event: Event) -> bool:
        """Charge for a query, durably and only once per query.

        Args:
            query: id of the query.
            event: cost of its release; an infinite cost, such as a noise-free release's, requires an unlimited budget.

        Returns:
            True if the query has been charged, now or earlier; False if the budget cannot pay for it, in which case
            nothing has changed.

        Raises:
            LedgerError: if this query was charged under other terms, or if the ledger file cannot be written; release
                nothing in either case.
        """
        with self._transaction() as connection:
            charged = self._terms(query)
            if charged is not None and charged != event.terms:
                raise LedgerError(
                    "this query was charged under different terms, which do not cover the current ones; restore "
                    "the previous settings under [learner], [data] and [privacy]"
                )
            if charged is not None:
                return True
            if self.payable_units(event) != event.units:
                return False
            head, query_key = self.head(), self._query_key(query)
            stamp = "" if self.mandate is None else self.mandate.stamp(self.periods.number)
            connection.execute(
                "INSERT INTO charge VALUES (?, ?, ?, ?, ?)",
                (head.charges + 1, query_key, event.terms, next_link(head.link, query_key, event.terms + stamp), stamp),
            )
        return True

    def payable_units(self, event: Event) -> Units | None:
        """Return the units of `event` that can pay for it; None if there are none.

        Raises:
            TaskRefused: if the event's cost in this ledger's terms is unknown.
        """
        self._catch_up()
        return self._spent.payable_units(event)

    def store(self, query: bytes, release: StoredRelease) -> None:
        """Store a release durably, before it leaves the vault.

        Raises:
            LedgerError: if the query was never charged, if its release already exists, or if the ledger file cannot be
                written.
        """
        with self._transaction() as connection:
            row = connection.execute(
                "SELECT number, link FROM charge WHERE query = ?", (self._query_key(query),)
            ).fetchone()
            if row is None:
                raise LedgerError("a release without a charge was not stored, and nothing has left the device")
            digest = release_digest(row[1], release.exponent, release.value, release.simulated)
            connection.execute(
                "INSERT INTO release VALUES (?, ?, ?, ?, ?)",
                (row[0], release.exponent, release.value, release.simulated, digest),
            )

    def stored_release(self, query: bytes) -> StoredRelease | None:
        """Return the stored release for this query, or None if it has not been answered yet."""
        with translate_errors(self._path):
            row = self._connection.execute(
                "SELECT exponent, value, simulated FROM release JOIN charge USING (number) WHERE query = ?",
                (self._query_key(query),),
            ).fetchone()
        return None if row is None else StoredRelease(int(row[0]), bytes(row[1]), bool(row[2]))

    def charged_event(self, query: bytes) -> Event | None:
        """Return the charge for this query, or None if there is none."""
        return None if (terms := self._terms(query)) is None else parse_event(terms)

    def spending(self) -> Spending:
        """Return the spending so far, without changing anything."""
        with translate_errors(self._path):
            count = "SELECT count(*) FROM release WHERE number > ?"
            releases, of_task = (
                self._connection.execute(count, (first,)).fetchone()[0]
                for first in (0, self._spent.charges_before_task)
            )
            # Read after the releases, because the agent may be running.
            charges = self.head().charges
        task = None if self.mandate is None else TaskSpending(self.mandate.epoch, self._spent.task_epsilon(), of_task)
        period, spent, now = self.periods.current_period(self.mandate), self._spent, self.running_time.seconds
        of_period = None if period is None else PeriodSpending(period, spent.period_epsilon())
        return Spending(
            spent.epsilon(),
            charges,
            releases,
            self._disk_writes.bytes_today if self._disk_writes else 0,
            task,
            of_period,
            spent.epsilon_alone(),
            spent.limit_spendings(now),
            spent.seconds_until_spent(now, self.periods.elapsed) if now >= DAY else None,
        )

    def epsilon_spent(self, units: Units) -> float:
        """Return ε charged so far to the most charged of these units, in the ledger's own terms."""
        self._catch_up()
        return self._spent.epsilon(units)

    def head(self) -> Head:
        """Return the current position of the chain."""
        self._catch_up()
        return self._head

    def link(self, charges: int) -> bytes | None:
        """Return the link of the charge with this number, or the first link for 0; None if there is no such charge."""
        if charges == 0:
            return first_link(self.own_budget.canonical_json(self.owner), self.nonce)
        with translate_errors(self._path):
            row = self._connection.execute("SELECT link FROM charge WHERE number = ?", (charges,)).fetchone()
        return None if row is None else bytes(row[0])

    def tip(self) -> LedgerPosition:
        """Return the ledger's latest position, as sent to peers."""
        charges = self.head().charges
        with translate_errors(self._path):
            released = self._connection.execute("SELECT ifnull(max(number), 0) FROM release").fetchone()[0]
        mark = self.mark(charges, released)
        if mark is None:
            raise LedgerError("the privacy ledger lost a charge while it was being read: nothing was released")
        return LedgerPosition(charges, released, mark)

    def mark(self, charges: int, released: int) -> bytes | None:
        """Return the hash of the ledger's state at this charge and release, or None if one of them never existed."""
        link = self.link(charges)
        with translate_errors(self._path):
            row = self._connection.execute("SELECT digest FROM release WHERE number = ?", (released,)).fetchone()
        if link is None or (row is None and released):
            return None
        return mark(link, bytes(row[0]) if row else b"")

    def charges(self) -> Iterator[tuple[bytes, str, str]]:
        """Yield the query id, terms and stamp of every charge, in order."""
        with translate_errors(self._path):
            yield from self._connection.execute("SELECT query, terms, stamp FROM charge ORDER BY number").fetchall()

    def last_window(self) -> int | None:
        """Return the last window that the newest charge covers; None if it covers all windows or there is no charge."""
        with translate_errors(self._path):
            row = self._connection.execute("SELECT terms FROM charge ORDER BY number DESC LIMIT 1").fetchone()
        last = None if row is None else parse_event(str(row[0])).units.spans[-1][1]
        return None if last == LAST else last

    def _terms(self, query: bytes) -> str | None:
        with translate_errors(self._path):
            row = self._connection.execute(
                "SELECT terms FROM charge WHERE query = ?", (self._query_key(query),)
            ).fetchone()
        return None if row is None else str(row[0])

    def _query_key(self, query: bytes) -> bytes:
        return query if self.mandate is None else self.mandate.query_key(query)

    def _catch_up(self) -> None:
        """Verify and tally the charges that were added to the file since the last call; only stored charges count."""
        with translate_errors(self._path):
            rows = self._connection.execute(
                "SELECT number, query, terms, stamp, link FROM charge WHERE number > ? ORDER BY number",
                (self._head.charges,),
            )
            for number, query, terms, stamp, link in rows:
                expected = Head(self._head.charges + 1, next_link(self._head.link, query, terms + stamp))
                if Head(number, link) != expected:
                    raise sqlite3.DatabaseError(f"the chain of charges is broken at charge {expected.charges}")
                try:
                    self._spent.add(parse_event(terms), stamp)
                except PrivacyError as error:
                    raise sqlite3.DatabaseError(f"a charge cannot be tallied: {error}") from error
                self._head = expected

    @property
    def budget(self) -> Budget:
        """Budget of one unit: that of the current task if there is one; otherwise, that of the ledger."""
        return self.own_budget if self.mandate is None else self.mandate.budget

    def check(self, events: Iterable[Event], mandate: Mandate) -> None:
        """Check that the releases of a task can be charged to this ledger.

        Raises:
            TaskRefused: if they cannot be charged.
        """
        for event in events:
            self._spent.check(event, mandate.budget)

    def take_up(self, mandate: Mandate) -> None:
        """Durably accept this task; all later charges belong to it, and the records of earlier tasks are deleted.

        Raises:
            LedgerError: if the task's epoch is not above all earlier epochs, or if the ledger file cannot be written.
        """
        self._catch_up()
        if mandate.epoch <= self._spent.epoch:
            raise LedgerError(
                f"epoch {mandate.epoch} has passed: this device has already been in epoch {self._spent.epoch}; have "
                "the fleet sign the task with a higher epoch"
            )
        self._mandates.add(mandate)
        self.mandate = mandate
        self._spent.begin_task(mandate)
        self.record_running_time()

    def set_limits(self, epsilons: "Mapping[Span, float]") -> None:
        """Also enforce these limits on ε per span, over all tasks together. See sottovoce.privacy.ledger.limits.

        Raises:
            LedgerError: if the ledger file cannot be written.
        """
        self._tally_charges(read_limits(self._read_access, epsilons, self.own_budget.delta))

    def start_counting(self, clock: Callable[[], float] = uptime) -> None:
        """Start counting the vault's running time with a clock that returns seconds."""
        self.running_time.start_counting(clock)

    def record_running_time(self, *, ending: bool = False) -> None:
        """Record the vault's running time if an hour has passed, and begin any period or span that is due.

        Args:
            ending: whether to record the time in any case, because the ledger is being closed.

        Raises:
            LedgerError: if the ledger file cannot be written.
        """
        if not self.running_time.is_counting:
            return
        now, mandate, charges = self.running_time.seconds, self.mandate, self.head().charges
        next_period = None if mandate is None or not self.periods.is_due(mandate) else mandate.period
        due_limits = [limit for limit in self._spent.limits if limit.began < 0 or limit.seconds_left(now) <= 0]
        if not (due_limits or ending or self.running_time.is_due or next_period is not None):
            return
        with self._transaction() as connection:
            now = self.running_time.record(connection)
            for limit in due_limits:
                record_span_start(connection, limit, now, 0 if limit.began < 0 else charges)
            if next_period is not None:
                self.periods.record(connection, next_period, now)
        self.running_time.mark_recorded(now)
        for limit in due_limits:
            self._spent.renew(limit, now)
        if next_period is not None:
            self.periods.begin(next_period, now)
            self._spent.begin_period(next_period)

    def blocking_limit(self, event: Event) -> Limit | None:
        """Return the limit that prevents this event from being paid, or None if there is none."""
        return self._spent.blocking_limit(event)

    def _tally_charges(self, limits: Iterable[Limit]) -> None:
        """Verify and tally the chain from its first link, with these limits."""
        self._head = Head(0, first_link(self.own_budget.canonical_json(self.owner), self.nonce))
        self._spent = ChargeTotals(self.own_budget, self.mandate, tuple(limits))
        self._catch_up()
        self._spent.begin_task(self.mandate)
        self._spent.begin_period(self.periods.number)

    @contextmanager
    def _read_access(self) -> Iterator[sqlite3.Connection]:
        with translate_errors(self._path):
            yield self._connection

    @contextmanager
    def _transaction(self, *, counted: bool = True) -> Iterator[sqlite3.Connection]:
        with translate_errors(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
                if self._disk_writes is not None:
                    (self._disk_writes.count if counted else self._disk_writes.skip)()
                    check_log_present(self._path)
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
