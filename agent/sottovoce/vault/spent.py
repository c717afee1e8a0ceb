"""Totals of a ledger's charges in its own terms: overall, for the current period, and under each of the owner's limits.

The total for the current task is in the task's terms.
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
    """Running totals of charges, which are added in order.

    Each task renumbers the records, so the cost of an individual record in earlier tasks is unknown. For those tasks,
    each record counts as the record that has paid most.

    Args:
        own: budget of the ledger.
        mandate: last task in the ledger, if any.
        limits: limits that the owner has set; the charges are also added to them.

    Attributes:
        limits: the owner's limits.
        before: number of charges made before the current task.
    """

    def __init__(self, own: Budget, mandate: Mandate | None, limits: Sequence[Limit] = ()) -> None:
        self.limits = tuple(limits)
        self._own, self._promise = own, promise_of(own)
        self._all = Tally(own.delta)
        self._mandate = mandate
        self._period: Tally | None = None  # None in the first period, when it would equal `_all`
        self._alone: Tally | None = None  # None until a release in a cell; until then, it would equal `_all`
        self._number = 0
        self._earlier = 0.0
        self._task: Tally | None = None
        self._epoch = self._charges = 0
        self.before = 0

    @property
    def epoch(self) -> int:
        """Epoch of the newest charge, or of the task that has begun since; 0 before the first one."""
        return self._epoch

    def begin(self, mandate: Mandate | None) -> None:
        """Begin this task unless it has already begun."""
        self._mandate = mandate
        if mandate is not None and mandate.epoch > self._epoch:
            self._enter_epoch(mandate.epoch)

    def open(self, period: int) -> None:
        """Begin this period of the ledger's budget unless it has already begun."""
        if period > self._number:
            self._earlier = self.largest_period_epsilon()
            self._number, self._period = period, Tally(self._own.delta)

    def add(self, event: Event, stamp: str) -> None:
        """Add an event that was charged durably with this stamp.

        Raises:
            PrivacyError: if the event's cost is unknown, or if its epoch or period has ended.
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
        """Check that an event's cost under this budget is known in the ledger's own terms.

        Raises:
            TaskRefused: if the cost is not known.
        """
        if self._own.epsilon is not None:
            charged, changes = charged_as(event, promise_of(budget), self._promise)
            part_of(charged, changes)

    def payable(self, event: Event) -> Units | None:
        """Return the units of `event` that can pay for it; None if there are none.

        Raises:
            TaskRefused: if the event's cost is unknown.
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
        if charged.units == EVERY != event.units:  # all units of the ledger pay, whichever units the event has
            return None if paying is None else units
        return None if paying is None else overlap(units, paying)

    def epsilon(self, units: Units = EVERY) -> float:
        """Return the total ε of the most charged of these units, in the ledger's own terms."""
        return self._all.epsilon(units)

    def epsilon_alone(self) -> float | None:
        """Return the total ε if all other devices collude; None if it does not depend on them."""
        return None if self._alone is None else self._alone.epsilon()

    def period_epsilon(self) -> float:
        """Return ε charged in the current period of the ledger's budget."""
        return (self._period or self._all).epsilon()

    def largest_period_epsilon(self) -> float:
        """Return ε charged in the period with the highest spending."""
        return max(self._earlier, self.period_epsilon())

    def task_epsilon(self) -> float:
        """Return ε of the unit charged most in the current task, in the task's terms; 0 outside a task."""
        return 0.0 if self._task is None else self._task.epsilon()

    def renew(self, limit: Limit, lived: float) -> None:
        """Begin a limit's next span; its first span includes all earlier charges."""
        if limit.began >= 0:
            limit.before, limit.tally = self._charges, Tally(self._own.delta)
        limit.began = lived

    def blocking_limit(self, event: Event) -> Limit | None:
        """Return the limit that prevents this event from being paid, or None if there is none."""
        budget = self._own if self._task is None or self._mandate is None else self._mandate.budget
        charged, changes = charged_as(event, promise_of(budget), self._promise)
        return next((one for one in self.limits if one.tally.payable(charged, one.epsilon, changes) is None), None)

    def _paying(self) -> Iterator[tuple[Tally, float]]:
        """Yield each tally to which an event is charged, with the largest ε that it allows."""
        if self._own.epsilon is not None:
            yield self._period or self._all, self._own.epsilon
        yield from ((limit.tally, limit.epsilon) for limit in self.limits)

    def limit_spendings(self, lived: float) -> tuple[LimitSpending, ...]:
        """Return the spending under each limit, at `lived` seconds of the vault's running time."""
        return tuple(
            LimitSpending(one.span, one.epsilon, one.tally.epsilon(), max(0.0, one.seconds_left(lived)))
            for one in self.limits
        )

    def seconds_until_spent(self, lived: float, of_period: float) -> float | None:
        """Return the seconds until the budget or a limit is spent, at the average rate of spending so far.

        Args:
            lived: seconds of the vault's running time.
            of_period: seconds of running time in the current period of the budget.

        Returns:
            The seconds; infinite if nothing was charged; None if they cannot be determined, because each window pays
            for itself or nothing is promised. A limit is ignored on the first day of its span, and if its span ends
            before the limit is spent.
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
    """Return the event in its task's terms: if the task's unit is the device, the whole device is charged."""
    return with_units(event, EVERY) if made.unit == "device" else event
