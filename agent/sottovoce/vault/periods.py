"""Periods of a device's budget: a new one opens by the fleet's order *and* after enough of the vault's life.

Neither alone suffices. The fleet's order is a signed task for a later period. For the time, see sottovoce.vault.life.
"""

import sqlite3
from typing import Literal

from sottovoce.vault.budget import Period
from sottovoce.vault.keeper_list import Access
from sottovoce.vault.life import DAY, Life
from sottovoce.vault.mandate import Mandate

Renews = Literal["never", "year"]
"""Interval at which the ledger's budget is renewed, by the owner's policy."""

MIN_DAYS: dict[Renews, int] = {"year": 365}
"""Days that a vault has to be at work before the next period begins."""


class Periods:
    """Budget periods of one ledger.

    Args:
        reading: opens the ledger's file for reading.
        life: life of the ledger's vault.

    Attributes:
        number: number of the present period.
    """

    def __init__(self, reading: Access, life: Life) -> None:
        self._life, self._least = life, float("inf")
        with reading() as connection:
            row = connection.execute("SELECT number, opened FROM period ORDER BY number DESC LIMIT 1").fetchone()
        self.number, self._opened = (0, 0.0) if row is None else (int(row[0]), float(row[1]))

    def allow_renewal(self, renews: Renews) -> None:
        """Allow budget periods to follow one another, unless the policy says never."""
        if renews != "never":
            self._least = MIN_DAYS[renews] * DAY

    @property
    def words(self) -> str:
        """Return the statement's sentence about periods; empty where the budget never renews."""
        if not self.renewing and not self.number:
            return ""
        least = f", which lasts {self._least / DAY:.0f} days at least" if self.renewing else ""
        return f"ε is of one budget period{least}; periods add up, and the ledger's total says to how much"

    @property
    def renewing(self) -> bool:
        """Whether the budget is ever renewed."""
        return self._least < float("inf")

    @property
    def lived(self) -> float:
        """Seconds that the vault has been at work in the present period."""
        return self._life.seconds - self._opened

    def present_period(self, mandate: Mandate | None) -> Period | None:
        """Return the present period under this task; None if there are none."""
        if not self.renewing and not self.number:
            return None
        waiting = self.renewing and mandate is not None and mandate.period > self.number
        return Period(self.number, self.lived, self._least, waiting)

    def due(self, mandate: Mandate | None) -> bool:
        """Return whether the next period may open: its time has come, and the fleet has ordered it."""
        present = self.present_period(mandate)
        return present is not None and present.waiting and present.lived >= present.least

    def note(self, connection: sqlite3.Connection, number: int, lived: float) -> None:
        """Write that this period opens now, in a transaction that the caller has begun."""
        connection.execute("INSERT INTO period VALUES (?, ?)", (number, lived))

    def open(self, number: int, lived: float) -> None:
        """Record, once it is written, that this budget period opened at `lived` seconds of the vault's life."""
        self.number, self._opened = number, lived
