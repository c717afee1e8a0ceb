"""Totals of a ledger's charges in its own terms: of all, of the present period, and under each limit of the owner.

The total of the present task's charges is in the task's terms.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy

from sottovoce.accounting.events import CellSum, Event, Moved, with_units
from sottovoce.accounting.relations import Promise, charged_as
from sottovoce.accounting.tally import Tally, part_of
from sottovoce.accounting.units import EVERY, Units, overlap
from sottovoce.errors import PrivacyError
from sottovoce.vault.budget import Budget, LimitSpending
from sottovoce.vault.life import DAY
from sottovoce.vault.limits import Limit
from sottovoce.vault.mandate import Mandate, promise_of, read_stamp


class Spent:
    """Totals of charges, followed in their order.

    Each task renumbers the records, so that the cost of a record in earlier tasks is unknown: there each record counts
    as the one that has paid most.

    Args:
        own: budget of the ledger.
        mandate: last task of the ledger, if any.
        limits: limits that the owner has set; they follow the charges too.

    Attributes:
        limits: the owner's limits.
        before: number of charges made before the present task.
    """

    def __init__(self, own: Budget, mandate: Mandate | None, limits: Sequence[Limit] = ()) -> None:
        self.limits = tuple(limits)
        self._own, self._promise = own, promise_of(own)
        self._all = Tally(own.delta)
        self._mandate = mandate
        self._period: Tally | None = None  # None in the first period, where `_all` is the same
        self._alone: Tally | None = None  # None while nothing was released in a cell: `_all` is the same then
        self._number = 0
        self._earlier = 0.0
        self._task: Tally | None = None
        self._epoch = self._charges = 0
        self.before = 0

    @property
    def epoch(self) -> int:
        """Epoch of the newest charge, or of the task that has begun since; 0 before any."""
        return self._epoch

    def begin(self, mandate: Mandate | None) -> None:
        """Begin this task, if it has not begun."""
        self._mandate = mandate
        if mandate is not None and mandate.epoch > self._epoch:
            self._enter_epoch(mandate.epoch)

    def open(self, period: int) -> None:
        """Begin this period of the ledger's budget, if it has not begun."""
        if period > self._number:
            self._earlier = self.largest_period_epsilon()
            self._number, self._period = period, Tally(self._own.delta)

    def add(self, event: Event, stamp: str) -> None:
        """Charge an event that was made durable with this stamp.

        Raises:
            PrivacyError: if its cost is unknown, or its epoch or its period has ended.
        """
        read = read_stamp(stamp, self._promise)
        epoch, made = read.epoch, read.promise
        if epoch < self._epoch and not isinstance(event, Moved):
            raise PrivacyError(f"a charge for epoch {epoch} follows one for epoch {self._epoch}")
        if read.period < self._number and not isinstance(event, Moved):
            raise PrivacyError(f"a charge for period {read.period} follows one for period {self._number}")
        if epoch > self._epoch:
            self._enter_epoch(epoch)
        self.open(read.period)
        charged, changes = charged_as(event, made, self._promise)
        if self._alone is None and isinstance(event, CellSum):
            self._alone = deepcopy(self._all)
        for tally in (self._all, self._period):
            if tally is not None:
                tally.add(charged, changes)
        if self._alone is not None:
            self._alone.add(charged.if_others_collude if isinstance(charged, CellSum) else charged, changes)
        self._charges += 1
        for limit in self.limits:
            if self._charges > limit.before:
                limit.tally.add(charged, changes)
        if self._task is not None:
            self._task.add(_event_for_task(event, made))

    def check(self, event: Event, budget: Budget) -> None:
        """Check that the cost of an event under this budget is known in the ledger's own terms.

        Raises:
            TaskRefused: if it is not known.
        """
        if self._own.epsilon is not None:
            charged, changes = charged_as(event, promise_of(budget), self._promise)
            part_of(charged, changes)

    def payable(self, event: Event) -> Units | None:
        """Return the units of `event` that can pay for it; None when there are none.

        Raises:
            TaskRefused: if its cost is unknown.
        """
        units: Units | None = event.units
        budget = self._own if self._task is None or self._mandate is None else self._mandate.budget
        if self._task is not None and budget.epsilon is not None:
            found = self._task.payable(_event_for_task(event, promise_of(budget)), budget.epsilon)
            units = event.units if found == EVERY else found
        if units is None or (self._own.epsilon is None and not self.limits):
            return units
        charged, changes = charged_as(event, promise_of(budget), self._promise)
        paying: Units | None = charged.units
        for tally, most in self._paying():
            found = tally.payable(charged, most, changes)
            paying = None if paying is None or found is None else overlap(paying, found)
        if charged.units == EVERY != event.units:  # all of the ledger's units, for whichever these are
            return None if paying is None else units
        return None if paying is None else overlap(units, paying)

    def epsilon(self, units: Units = EVERY) -> float:
        """Return ε of the unit charged most among these, by all charges, in the ledger's own terms."""
        return self._all.epsilon(units)

    def epsilon_alone(self) -> float | None:
        """Return ε by all charges if all other devices collude; None where it does not depend on them."""
        return None if self._alone is None else self._alone.epsilon()

    def period_epsilon(self) -> float:
        """Return the spending of the present period of the ledger's budget."""
        return (self._period or self._all).epsilon()

    def largest_period_epsilon(self) -> float:
        """Return the spending of the period that was charged most."""
        return max(self._earlier, self.period_epsilon())

    def task_epsilon(self) -> float:
        """Return ε of the unit charged most in the present task, in the task's terms; 0 outside a task."""
        return 0.0 if self._task is None else self._task.epsilon()

    def renew(self, limit: Limit, lived: float) -> None:
        """Begin the next span of a limit; its first span includes all earlier charges."""
        if limit.began >= 0:
            limit.before, limit.tally = self._charges, Tally(self._own.delta)
        limit.began = lived

    def blocking_limit(self, event: Event) -> Limit | None:
        """Return the limit that prevents this event from being paid, if there is one."""
        budget = self._own if self._task is None or self._mandate is None else self._mandate.budget
        charged, changes = charged_as(event, promise_of(budget), self._promise)
        return next((one for one in self.limits if one.tally.payable(charged, one.epsilon, changes) is None), None)

    def _paying(self) -> Iterator[tuple[Tally, float]]:
        """Yield the tallies that must pay, each with its largest ε."""
        if self._own.epsilon is not None:
            yield self._period or self._all, self._own.epsilon
        yield from ((limit.tally, limit.epsilon) for limit in self.limits)

    def limit_spendings(self, lived: float) -> tuple[LimitSpending, ...]:
        """Return the spending under each limit, after a number of seconds of the vault's life."""
        return tuple(
            LimitSpending(one.span, one.epsilon, one.tally.epsilon(), max(0.0, one.seconds_left(lived)))
            for one in self.limits
        )

    def seconds_until_spent(self, lived: float, of_period: float) -> float | None:
        """Return the seconds that the budget and limits last, at the rate at which they were charged until now.

        Args:
            lived: seconds of the vault's life.
            of_period: seconds of that life in the present period of the budget.

        Returns:
            Infinite if nothing was charged; None if it cannot be determined, because each window pays for itself, or
            nothing is promised. A limit does not count on the first day of its span, nor if the span ends before.
        """
        if self._own.unit == "window" or self._own.epsilon is None:
            return None
        left = of_period * ((self._period or self._all).affordable_repeats(self._own.epsilon) - 1)
        for limit in self.limits:
            since = lived - limit.began
            until = since * (limit.tally.affordable_repeats(limit.epsilon) - 1)
            left = min(left, until) if since >= DAY and until < limit.seconds_left(lived) else left
        return max(0.0, left)

    def _enter_epoch(self, epoch: int) -> None:
        present = self._mandate if self._mandate is not None and self._mandate.epoch == epoch else None
        self.before = self._charges
        self._epoch, self._task = epoch, None if present is None else Tally(present.budget.delta)
        if self._own.unit == "record":
            self._all = self._all.renumbered()
            self._alone = None if self._alone is None else self._alone.renumbered()
            self._period = None if self._period is None else self._period.renumbered()
            for limit in self.limits:
                limit.tally = limit.tally.renumbered()


def _event_for_task(event: Event, made: Promise) -> Event:
    """Return the event in its task's terms: if it hides the whole device, that is charged, whatever its windows."""
    return with_units(event, EVERY) if made.unit == "device" else event
