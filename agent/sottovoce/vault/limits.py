"""Monthly and yearly limits that a device's owner sets for all tasks together, in addition to the ledger's budget.

A month is 30 days and a year is 365 days of the vault's running time, and spans follow one another without gaps. See
sottovoce.vault.running_time.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sottovoce.accounting.tally import Tally
from sottovoce.vault.keeper_list import Access
from sottovoce.vault.running_time import DAY

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
