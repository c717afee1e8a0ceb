"""Totals of a ledger's charges: overall, for the current period, under each owner limit, and for the current task.

The first three use the ledger's privacy unit and neighbouring relation, and the last one uses the task's.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.events import CellSum, Event, LedgerMove, with_units
from sottovoce.privacy.accounting.relations import Promise, convert_charge
from sottovoce.privacy.accounting.tally import Tally, cost_part
from sottovoce.privacy.accounting.units import EVERY, Units, overlap
from sottovoce.privacy.ledger.budget import Budget, LimitSpending
from sottovoce.privacy.ledger.clocks import DAY
from sottovoce.privacy.ledger.limits import Limit
from sottovoce.privacy.ledger.mandate import Mandate, parse_stamp, promise_from_budget


class ChargeTotals:
    """Running totals of charges, which are added in order.

    Each task renumbers the records, so the cost of an individual record in earlier tasks is unknown. For
    those tasks, every record is charged as much as the most-charged record.

    Args:
        budget: the ledger's budget.
        mandate: last task in the ledger, if any.
        limits: limits that the owner has set; charges also count towards them.

    Attributes:
        limits: the owner's limits.
        charges_before_task: number of charges made before the current task.
    """

    def __init__(self, budget: Budget, mandate: Mandate | None, limits: Sequence[Limit] = ()) -> None:
        self.limits = tuple(limits)
        self._budget, self._promise = budget, promise_from_budget(budget)
        self._all = Tally(budget.delta)
        self._mandate = mandate
        self._period: Tally | None = None  # None in the first period, in which it would equal `_all`
        self._alone: Tally | None = None  # None until a release in a cell, because it would equal `_all`
        self._period_number = 0
        self._largest_earlier_epsilon = 0.0
        self._task: Tally | None = None
        self._epoch = self._charges = 0
        self.charges_before_task = 0

    @property
    def epoch(self) -> int:
        """Epoch of the newest charge, or of the task that has begun since; 0 if there is neither."""
        return self._epoch

    def begin_task(self, mandate: Mandate | None) -> None:
        """Begin this task unless it has already begun."""
        self._mandate = mandate
        if mandate is not None and mandate.epoch > self._epoch:
            self._enter_epoch(mandate.epoch)

    def begin_period(self, period: int) -> None:
        """Begin this period of the ledger's budget unless it has already begun."""
        if period > self._period_number:
            self._largest_earlier_epsilon = self.largest_period_epsilon()
            self._period_number, self._period = period, Tally(self._budget.delta)

    def add(self, event: Event, stamp: str) -> None:
        """Add an event that was charged durably with this stamp.

        Raises:
            PrivacyError: if the event's cost is unknown, or if its epoch or period has ended.
        """
        parsed = parse_stamp(stamp, self._promise)
        epoch, promise = parsed.epoch, parsed.promise
        if epoch < self._epoch and not isinstance(event, LedgerMove):
            raise PrivacyError(f"out-of-order charge: epoch {epoch} follows epoch {self._epoch}")
        if parsed.period < self._period_number and not isinstance(event, LedgerMove):
            raise PrivacyError(f"out-of-order charge: period {parsed.period} follows period {self._period_number}")
        if epoch > self._epoch:
            self._enter_epoch(epoch)
        self.begin_period(parsed.period)
        charged, changes = convert_charge(event, promise, self._promise)
        if self._alone is None and isinstance(event, CellSum):
            self._alone = deepcopy(self._all)
        for tally in (self._all, self._period):
            if tally is not None:
                tally.add(charged, changes)
        if self._alone is not None:
            self._alone.add(charged.if_others_collude if isinstance(charged, CellSum) else charged, changes)
        self._charges += 1
        for limit in self.limits:
            if self._charges > limit.charges_before:
                limit.tally.add(charged, changes)
        if self._task is not None:
            self._task.add(_event_for_task(event, promise))

    def check(self, event: Event, budget: Budget) -> None:
        """Check that an event's cost under this budget is known in the ledger's own terms.

        Raises:
            TaskRefused: if the cost is not known.
        """
        if self._budget.epsilon is not None:
            charged, changes = convert_charge(event, promise_from_budget(budget), self._promise)
            cost_part(charged, changes)

    def payable_units(self, event: Event) -> Units | None:
        """Return the units of `event` that can pay for it; None if there are none.

        Raises:
            TaskRefused: if the event's cost is unknown.
        """
        units: Units | None = event.units
        budget = self._budget if self._task is None or self._mandate is None else self._mandate.budget
        if self._task is not None and budget.epsilon is not None:
            affordable = self._task.payable_units(_event_for_task(event, promise_from_budget(budget)), budget.epsilon)
            units = event.units if affordable == EVERY else affordable
        if units is None or (self._budget.epsilon is None and not self.limits):
            return units
        charged, changes = convert_charge(event, promise_from_budget(budget), self._promise)
        paying: Units | None = charged.units
        for tally, allowed in self._allowances():
            affordable = tally.payable_units(charged, allowed, changes)
            paying = None if paying is None or affordable is None else overlap(paying, affordable)
        if charged.units == EVERY != event.units:  # all of the ledger's units pay, regardless of the event's units
            return None if paying is None else units
        return None if paying is None else overlap(units, paying)

    def epsilon(self, units: Units = EVERY) -> float:
        """Return the total ε of the most-charged unit among these, in the ledger's own terms."""
        return self._all.epsilon(units)

    def epsilon_alone(self) -> float | None:
        """Return the total ε if all other devices collude, or None if it does not depend on them."""
        return None if self._alone is None else self._alone.epsilon()

    def period_epsilon(self) -> float:
        """Return ε charged in the current period of the ledger's budget."""
        return (self._period or self._all).epsilon()

    def largest_period_epsilon(self) -> float:
        """Return ε charged in the period with the highest spending."""
        return max(self._largest_earlier_epsilon, self.period_epsilon())

    def task_epsilon(self) -> float:
        """Return ε of the most-charged unit in the current task, in the task's terms; 0 outside a task."""
        return 0.0 if self._task is None else self._task.epsilon()

    def renew(self, limit: Limit, now: float) -> None:
        """Begin a limit's next span; its first span includes all earlier charges."""
        if limit.began >= 0:
            limit.charges_before, limit.tally = self._charges, Tally(self._budget.delta)
        limit.began = now

    def blocking_limit(self, event: Event) -> Limit | None:
        """Return the limit that prevents this event from being paid, or None if there is none."""
        budget = self._budget if self._task is None or self._mandate is None else self._mandate.budget
        charged, changes = convert_charge(event, promise_from_budget(budget), self._promise)
        for limit in self.limits:
            if limit.tally.payable_units(charged, limit.epsilon, changes) is None:
                return limit
        return None

    def _allowances(self) -> Iterator[tuple[Tally, float]]:
        """Yield each tally to which an event is charged, with the largest ε that it allows."""
        if self._budget.epsilon is not None:
            yield self._period or self._all, self._budget.epsilon
        yield from ((limit.tally, limit.epsilon) for limit in self.limits)

    def limit_spendings(self, now: float) -> tuple[LimitSpending, ...]:
        """Return the spending under each limit, at `now` seconds of the vault's running time."""
        return tuple(
            LimitSpending(limit.span, limit.epsilon, limit.tally.epsilon(), max(0.0, limit.seconds_left(now)))
            for limit in self.limits
        )

    def seconds_until_spent(self, now: float, period_seconds: float) -> float | None:
        """Return the seconds until the budget is spent or a limit is reached, at the average rate of spending so far.

        Args:
            now: seconds of the vault's running time.
            period_seconds: seconds of running time in the current period of the budget.

        Returns:
            The seconds; infinite if nothing was charged; None if they cannot be determined because each window has
            its own budget or the budget has no ε. A limit is ignored during the first day of its span, or if the span
            ends before the limit is spent.
        """
        if self._budget.unit == "window" or self._budget.epsilon is None:
            return None
        remaining = period_seconds * ((self._period or self._all).affordable_repeats(self._budget.epsilon) - 1)
        for limit in self.limits:
            elapsed = now - limit.began
            until_spent = elapsed * (limit.tally.affordable_repeats(limit.epsilon) - 1)
            if elapsed >= DAY and until_spent < limit.seconds_left(now):
                remaining = min(remaining, until_spent)
        return max(0.0, remaining)

    def _enter_epoch(self, epoch: int) -> None:
        mandate = self._mandate if self._mandate is not None and self._mandate.epoch == epoch else None
        self.charges_before_task = self._charges
        self._epoch, self._task = epoch, None if mandate is None else Tally(mandate.budget.delta)
        if self._budget.unit == "record":
            self._all = self._all.renumber()
            self._alone = None if self._alone is None else self._alone.renumber()
            self._period = None if self._period is None else self._period.renumber()
            for limit in self.limits:
                limit.tally = limit.tally.renumber()


def _event_for_task(event: Event, promise: Promise) -> Event:
    """Return the event in its task's terms, which charges the whole device if the task's unit is the device."""
    return with_units(event, EVERY) if promise.unit == "device" else event
