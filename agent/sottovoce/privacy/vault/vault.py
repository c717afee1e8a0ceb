"""The vault, which holds the records and the ledger and answers queries with releases.

It answers every query in six steps, and the guarantee depends on their order; see `Vault.answer`.
"""

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.concurrency import BackgroundThread, ThreadPool, Turn
from sottovoce.data import Records
from sottovoce.errors import InternalError, LedgerError, TaskRefused
from sottovoce.privacy.accounting.events import Event, equal_except_units, with_units
from sottovoce.privacy.accounting.units import EVERY, Units, overlap
from sottovoce.privacy.api import Answer, CellAnswer, CellQuery, PrivacyStatement, Query, Refused, Release
from sottovoce.privacy.ledger.budget import Spending, StoredRelease
from sottovoce.privacy.ledger.chain import LedgerPosition
from sottovoce.privacy.ledger.clocks import DAY, RECORD_INTERVAL
from sottovoce.privacy.ledger.ledger import Ledger
from sottovoce.privacy.ledger.witnesses import Witness
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.secure_sum import STATEMENT_BYTES
from sottovoce.privacy.vault.growing_records import GrowingRecords
from sottovoce.privacy.vault.observer import Observer
from sottovoce.privacy.vault.programs.program import Plan, Program
from sottovoce.privacy.vault.record_selection import find_positions
from sottovoce.privacy.vault.release import SealedRelease

if TYPE_CHECKING:  # not needed on devices without a cell
    from sottovoce.privacy.vault.cell_context import CellContext
    from sottovoce.privacy.vault.cell_member import SignatureVerifier

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VaultContext:
    """The components of a vault.

    Attributes:
        records: the private records.
        program: the private half of the learner.
        ledger: the ledger, open for charging.
        noise: the source of randomness.
        statement: the guarantee of the whole run.
        lifetime: total charges to one unit, as a count per event; empty if there is no guarantee.
        observer: receives a simulation's intermediate results; None on a device.
        growing_records: the source of `records`, if it grows; in that case, `records` are the initial ones.
        closed_reason: returns the reason why releases have stopped, which does not depend on the records, or None while
            releases are possible.
        make_cell: creates the member of secure sums from a signature verifier; None if there are no secure sums.
        verify_signature: the signature verifier.
    """

    records: Records
    program: Program[Any]
    ledger: Ledger
    noise: NoiseSource
    statement: PrivacyStatement
    lifetime: Mapping[Event, int] = field(default_factory=dict)
    observer: Observer | None = None
    growing_records: GrowingRecords | None = None
    closed_reason: Callable[[], str | None] = lambda: None
    make_cell: "Callable[[SignatureVerifier], CellContext] | None" = None
    verify_signature: "SignatureVerifier | None" = None

    def __post_init__(self) -> None:
        """Raise InternalError if a vault with real noise has an observer."""
        if self.observer is not None and not self.noise.simulated:
            raise InternalError("a vault with real noise was given an observer: this is a bug; please report it")


class Vault:
    """Vault for one device's records. It answers one caller at a time; other callers wait."""

    def __init__(self, context: VaultContext) -> None:
        self._context = context
        self._cell = (
            None
            if context.make_cell is None or context.verify_signature is None
            else context.make_cell(context.verify_signature)
        )
        self._thread: ThreadPool | None = None
        self._turn = Turn()  # two threads must not use the SQLite connection at the same time
        self._ended_reason: str | None = None
        self._closing = threading.Event()
        if context.ledger.running_time.is_counting:
            BackgroundThread(self._record_running_time)

    @property
    def statement(self) -> PrivacyStatement:
        """The guarantee of the whole run or, if the budget is renewed, of one budget period."""
        statement, periods = self._context.statement, self._context.ledger.periods.description
        return replace(statement, composition=f"{statement.composition}; {periods}") if periods else statement

    @property
    def follows(self) -> bool:
        """Whether records are added while the vault is open; see GrowingRecords."""
        return self._context.growing_records is not None

    @property
    def lifetime(self) -> Mapping[Event, int]:
        """Total charges to one unit, as a count per event; empty if there is no guarantee."""
        return self._context.lifetime

    def spending(self) -> Spending:
        """Return the spending recorded in the ledger."""
        return self._turn.run(self._context.ledger.spending)

    def tip(self) -> LedgerPosition:
        """Return the ledger's latest position, as sent to peers."""
        return self._turn.run(self._context.ledger.tip)

    def mark(self, charges: int, released: int) -> bytes | None:
        """Return the hash of the ledger's state at this charge and release, or None if one of them never existed."""
        return self._turn.run(partial(self._context.ledger.mark, charges, released))

    def witnesses(self) -> tuple[Witness, ...]:
        """Return the peers that keep the ledger's latest position."""
        return self._turn.run(self._context.ledger.witnesses.load_newest)

    def appoint(self, witnesses: tuple[Witness, ...]) -> None:
        """Replace the peers that keep the ledger's latest position."""
        self._turn.run(partial(self._context.ledger.witnesses.appoint, witnesses))

    def end(self, action: Callable[[], object], reason: str) -> None:
        """Call `action` between answers, then refuse all further queries with this reason.

        If `action` raises an exception, the vault continues to answer queries.
        """

        def act_and_end() -> None:
            action()
            self._ended_reason = reason

        self._turn.run(act_and_end)

    async def ask(self, query: Query) -> Answer:
        """Run `answer` in the vault's thread, so that neither computation nor the disk blocks the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._own_thread(), self.answer, query)

    def answer(self, query: Query) -> Answer:
        """Answer a query: plan, charge, compute, add noise, store, return, always in this order.

        A repeated query id is answered with the same stored bytes, without new noise and without a new charge. If the
        device failed after a charge but before its release was stored, the charge pays for that release when the query
        is repeated.

        Growing records are read before they are charged, so a failed read costs nothing.

        Raises:
            LedgerError: if the ledger failed, or if this query was charged under other terms; nothing was released.
            DataError: if growing records cannot be read; nothing was charged.
        """
        return self._turn.run(partial(self._answer, query))

    def _answer(self, query: Query) -> Answer:
        query_id, context = query.id, self._context
        if (reason := self._closed_reason()) is not None:
            return Refused(query_id, "task", reason)
        plan = context.program.plan(query)
        if isinstance(plan, Refused):
            return plan
        if (ended := self._restrict_to_ended(plan.event)) is None:
            return Refused(query_id, "calendar", "none of the windows that may be queried has ended yet")
        plan = replace(plan, event=ended)
        charged, stored = context.ledger.charged_event(query_id), context.ledger.stored_release(query_id)
        has_same_terms = charged is not None and equal_except_units(charged, plan.event)
        if stored is None:
            try:
                # If the query was charged under other terms, `charge` fails.
                payable_event = self._restrict_to_payable(plan.event) if charged is None else plan.event
            except TaskRefused as refusal:
                return Refused(query_id, "task", str(refusal))
            event = charged if has_same_terms else payable_event
            records = (
                context.records if event is None or context.growing_records is None else context.growing_records.read()
            )
            if event is None or not context.ledger.charge(query_id, event):
                return self._refuse_unpaid(query_id, plan.event)
            if records.units is None and event.units != plan.event.units:
                return Refused(
                    query_id,
                    "terms",
                    "this query was charged for different records, with a different sampling method",
                )
            indices = self._read(records, plan, event)
            raw = context.program.compute(query, records if indices is None else records.at(indices))
            value = plan.mechanism.apply(raw, context.noise)
            if context.observer is not None:
                released = np.ldexp(value.astype(np.float64), plan.mechanism.exponent)
                self._notify_observer(query, indices, released, context.observer)
            stored = StoredRelease(plan.mechanism.exponent, value.astype("<i8").tobytes(), context.noise.simulated)
            context.ledger.store(query_id, stored)
            return self._release(query_id, stored, event.units)
        if charged is None or not has_same_terms or len(stored.value) != 8 * plan.mechanism.size:
            return Refused(
                query_id,
                "terms",
                "this query has already been answered under different terms or for a different model",
            )
        return self._release(query_id, stored, charged.units)

    @property
    def largest_step(self) -> int:
        """Maximum size in bytes of a request in a secure sum; 0 if the vault takes part in none."""
        return 0 if self._cell is None else self._cell.mechanism.cell.most * STATEMENT_BYTES

    async def take_part(self, query: CellQuery) -> CellAnswer | Refused:
        """Run `step` in the vault's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._own_thread(), self.step, query)

    def step(self, query: CellQuery) -> CellAnswer | Refused:
        """Perform a step of a secure sum; see CellContext.

        Raises:
            LedgerError: if the ledger failed; nothing was released.
        """
        return self._turn.run(partial(self._step, query))

    def _step(self, query: CellQuery) -> CellAnswer | Refused:
        cell = self._cell
        if (reason := self._closed_reason()) is not None:
            return Refused(query.id, "task", reason)
        if cell is None:
            return Refused(query.id, "query", "this vault does not take part in secure sums")
        if self._context.growing_records is not None:
            if (ended := self._restrict_to_ended(cell.event)) is None:
                return Refused(query.id, "calendar", "none of the windows that may be queried has ended yet")
            cell = replace(cell, records=self._context.growing_records.read(), units=ended.units)
        answer = cell.step(query)
        return self._refuse_unpaid(query.id, cell.event) if answer is None else answer

    def close(self) -> None:
        """Finish the answer in progress, then close the ledger."""
        self._closing.set()
        if self._thread is not None:
            self._thread.shutdown(wait=True)
        self._turn.run(self._context.ledger.close)

    def _closed_reason(self) -> str | None:
        """Return why releases are currently not possible, or None if they are."""
        growing_records = self._context.growing_records
        return (
            self._ended_reason
            or self._context.closed_reason()
            or (None if growing_records is None else growing_records.waiting_reason)
        )

    def _own_thread(self) -> ThreadPool:
        if self._thread is None:
            self._thread = ThreadPool(1)
        return self._thread

    def _record_running_time(self) -> None:
        """Record the vault's running time regularly, and open the budget's next period when it is due; see Periods."""

        def record() -> None:
            if not self._closing.is_set():
                self._context.ledger.record_running_time()

        while not self._closing.wait(RECORD_INTERVAL):
            try:
                self._turn.run(record)
            except (LedgerError, MemoryError) as error:
                _log.warning("life-not-noted %s", str(error) or "no memory")

    def _refuse_unpaid(self, query: bytes, event: Event) -> Refused:
        """Refuse a query because the budget is spent, either permanently or until the next period or limit span."""
        ledger = self._context.ledger
        if (limit := ledger.blocking_limit(event)) is not None:
            days_left = math.ceil(limit.seconds_left(ledger.running_time.seconds) / DAY)
            reached = f"the owner's limit of ε = {limit.epsilon:g} per {limit.span} has been reached"
            return Refused(query, "task", f"{reached}: releases resume in {days_left} days")
        period = ledger.periods.current_period(ledger.mandate)
        if period is None or not period.waiting:
            return Refused(query, "budget", "the privacy budget is spent")
        days = math.ceil((period.least - period.elapsed) / DAY)
        return Refused(
            query,
            "task",
            f"the budget of this period is spent; the next period opens after {days} days of running time",
        )

    def _notify_observer(
        self, query: Query, indices: NDArray[np.int64] | None, value: NDArray[np.float64], observer: Observer
    ) -> None:
        facts = {"batch": None if indices is None else indices.tolist(), "value": value.tolist()}
        trace: Callable[[], dict[str, Any]] | None = getattr(self._context.program, "trace", None)
        observer.record_computed(query, facts if trace is None else {**facts, **trace()})

    def _restrict_to_ended(self, event: Event) -> Event | None:
        """Restrict the event to those of its windows that have ended, if records grow window by window.

        If the ledger's unit is a window, an event that protects the whole device also charges only these windows.
        """
        growing_records = self._context.growing_records
        if growing_records is None:
            return event
        last = growing_records.last_ended_window()
        if last is None or last < 0:
            return None
        if event.units == EVERY and self._context.ledger.own_budget.unit != "window":
            return event
        windows = overlap(event.units, Units(((0, last),)))
        return None if windows is None else with_units(event, windows)

    def _restrict_to_payable(self, event: Event) -> Event | None:
        """Restrict the event to those of its units that can still pay, which depends only on the ledger.

        Raises:
            TaskRefused: if the event's cost is unknown.
        """
        units = self._context.ledger.payable_units(event)
        return None if units is None else with_units(event, units)

    def _read(self, records: Records, plan: Plan[Any], event: Event) -> NDArray[np.int64] | None:
        """Return the positions of exactly those records from which a release is computed, or None for all records.

        These are the records of the units that `event` charged and the plan still covers. If the plan samples, the
        result is a random sample of these records.
        """
        units = overlap(event.units, plan.event.units)
        if plan.sampling is None and units == EVERY:
            return None
        positions = find_positions(records, units)
        if plan.sampling is None:
            return positions
        return positions[plan.sampling.draw(len(positions), self._context.noise)]

    def _release(self, query_id: bytes, stored: StoredRelease, units: Units) -> Release:
        value = np.frombuffer(stored.value, dtype="<i8").astype(np.int64)
        value.flags.writeable = False
        return SealedRelease(query_id, value, 2.0**stored.exponent, self.statement, stored.simulated, units.count)
