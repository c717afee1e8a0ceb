"""Periods of a device's budget, and the owner's monthly and yearly limits for all tasks together.

A new period begins only if the fleet has signed a task for a later period *and* the vault has run for long enough
(sottovoce.privacy.ledger.clocks). A month is 30 days and a year is 365 days of running time, and spans follow one
another without gaps.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sottovoce.privacy.accounting.tally import Tally
from sottovoce.privacy.ledger.budget import Period
from sottovoce.privacy.ledger.clocks import DAY, RunningTime
from sottovoce.privacy.ledger.mandate import Mandate
from sottovoce.privacy.ledger.witnesses import Access

Span = Literal["month", "year"]
SECONDS: dict[Span, float] = {"month": 30 * DAY, "year": 365 * DAY}


@dataclass(slots=True)
class Limit:
    """A limit set by the owner.

    Attributes:
        span: the span of time to which the limit applies.
        epsilon: largest cost of one unit in a span, in the ledger's own terms.
        began: start of the current span, in seconds of the vault's running time.
        charges_before: number of charges made before the current span.
        tally: tally of all charges in the current span.
    """

    span: Span
    epsilon: float
    began: float
    charges_before: int
    tally: Tally

    def seconds_left(self, now: float) -> float:
        """Return the seconds until the next span begins; 0 or less if the next span is due."""
        return self.began + SECONDS[self.span] - now


def read_limits(read_access: Access, epsilons: Mapping[Span, float], delta: float) -> list[Limit]:
    """Return limits with the given ε, the span starts from the ledger, and empty tallies.

    A new limit starts now, and all earlier charges count towards it because their times are unknown.
    """
    with read_access() as connection:
        rows = connection.execute("SELECT span, began, charges FROM span").fetchall()
    starts = {name: (float(began), int(charges)) for name, began, charges in rows}
    return [Limit(span, epsilon, *starts.get(span, (-1.0, 0)), Tally(delta)) for span, epsilon in epsilons.items()]


def record_span_start(connection: sqlite3.Connection, limit: Limit, now: float, charges: int) -> None:
    """Record that the limit's span begins now, in a transaction that the caller has begun."""
    connection.execute("INSERT OR REPLACE INTO span VALUES (?, ?, ?)", (limit.span, now, charges))


RenewalInterval = Literal["never", "year"]
"""Interval at which the ledger's budget is renewed, as set in the owner's policy."""

MIN_DAYS: dict[RenewalInterval, int] = {"year": 365}
"""Minimum number of days for which a vault must run before the next period may begin."""


class Periods:
    """The budget periods of one ledger.

    Args:
        read_access: opens the ledger's file for reading.
        running_time: running time of the ledger's vault.

    Attributes:
        number: number of the current period.
    """

    def __init__(self, read_access: Access, running_time: RunningTime) -> None:
        self._running_time, self._min_seconds = running_time, float("inf")
        with read_access() as connection:
            row = connection.execute("SELECT number, opened FROM period ORDER BY number DESC LIMIT 1").fetchone()
        self.number, self._opened = (0, 0.0) if row is None else (int(row[0]), float(row[1]))

    def allow_renewal(self, renews: RenewalInterval) -> None:
        """Allow the budget to be renewed in later periods, unless `renews` is `never`."""
        if renews != "never":
            self._min_seconds = MIN_DAYS[renews] * DAY

    @property
    def description(self) -> str:
        """The privacy statement's text about periods; empty if the budget is never renewed."""
        if not self.is_renewable and not self.number:
            return ""
        minimum = f", which lasts at least {self._min_seconds / DAY:.0f} days" if self.is_renewable else ""
        return f"ε is for one budget period{minimum}; the ε of all periods add up to the total in the ledger"

    @property
    def is_renewable(self) -> bool:
        """Whether the budget is ever renewed."""
        return self._min_seconds < float("inf")

    @property
    def elapsed(self) -> float:
        """Seconds for which the vault has run in the current period."""
        return self._running_time.seconds - self._opened

    def current_period(self, mandate: Mandate | None) -> Period | None:
        """Return the current period under this task, or None if the budget has no periods."""
        if not self.is_renewable and not self.number:
            return None
        waiting = self.is_renewable and mandate is not None and mandate.period > self.number
        return Period(self.number, self.elapsed, self._min_seconds, waiting)

    def is_due(self, mandate: Mandate | None) -> bool:
        """Return whether the next period may open: enough time has passed, and the fleet's task calls for it."""
        period = self.current_period(mandate)
        return period is not None and period.waiting and period.elapsed >= period.least

    def record(self, connection: sqlite3.Connection, number: int, now: float) -> None:
        """Record in the ledger that this period opens now, in a transaction that the caller has begun."""
        connection.execute("INSERT INTO period VALUES (?, ?)", (number, now))

    def begin(self, number: int, now: float) -> None:
        """Open this period in memory, after `record`, at `now` seconds of the vault's running time."""
        self.number, self._opened = number, now
