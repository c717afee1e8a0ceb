"""Limits that a device's owner sets on all tasks together per month and per year, besides the ledger's budget.

A month is 30 days and a year is 365 days of the vault's life, one after the other. See sottovoce.vault.life.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sottovoce.accounting.tally import Tally
from sottovoce.vault.keeper_list import Access
from sottovoce.vault.life import DAY

Span = Literal["month", "year"]
SECONDS: dict[Span, float] = {"month": 30 * DAY, "year": 365 * DAY}


@dataclass(slots=True)
class Limit:
    """Limit set by the owner.

    Attributes:
        span: the span of time that it is for.
        epsilon: largest cost of one unit in it, in the ledger's own terms.
        began: start of the present span, in seconds of the vault's life.
        before: number of charges made before then.
        tally: tally of all charges since then.
    """

    span: Span
    epsilon: float
    began: float
    before: int
    tally: Tally

    def seconds_left(self, lived: float) -> float:
        """Return the seconds until the next span begins; 0 or less if it is due."""
        return self.began + SECONDS[self.span] - lived


def limits_in(reading: Access, most: Mapping[Span, float], delta: float) -> list[Limit]:
    """Return limits of these ε, with the beginnings of their spans from the ledger, and with nothing tallied.

    A new limit begins now, and all earlier charges count in it, since their times are not known.
    """
    with reading() as connection:
        rows = connection.execute("SELECT span, began, charges FROM span").fetchall()
    noted = {name: (float(began), int(charges)) for name, began, charges in rows}
    return [Limit(span, epsilon, *noted.get(span, (-1.0, 0)), Tally(delta)) for span, epsilon in most.items()]


def note_span_start(connection: sqlite3.Connection, limit: Limit, lived: float, charges: int) -> None:
    """Write that the limit's span begins now, in a transaction that the caller has begun."""
    connection.execute("INSERT OR REPLACE INTO span VALUES (?, ?, ?)", (limit.span, lived, charges))
