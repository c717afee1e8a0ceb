"""The periods of a device's budget: a new one opens by the fleet's word *and* after time that the vault has lived.

Neither alone suffices. The fleet's word is a signed task that is of a later period. The time is counted while the vault
is at work, by a clock that only goes forward and that nobody sets: the machine's uptime. So a calendar that jumps opens
nothing and locks nothing, and a device that is off does not come nearer to its next budget.
"""

import time
from collections.abc import Callable
from typing import Literal

from sottovoce.vault.budget import Period
from sottovoce.vault.keeper_list import Access
from sottovoce.vault.mandate import Mandate

Renews = Literal["never", "year"]
"""How often the ledger's budget is there anew, as the owner's policy says."""

_DAY = 86_400.0
LEAST_DAYS: dict[Renews, int] = {"year": 365}
"""For which a vault has to be at work before the next one opens."""

NOTED_SECONDS = 3_600.0
"""How much of its life a vault that is killed may forget."""


def uptime() -> float:
    """Seconds since the machine was started, suspended or not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Periods:
    """Of one ledger.

    Args:
        reading: its file, to be read.
        writing: the same in one transaction.

    Attributes:
        number: of the present one.
    """

    def __init__(self, reading: Access, writing: Access) -> None:
        self._writing = writing
        self._least, self._clock = float("inf"), uptime
        with reading() as connection:
            row = connection.execute("SELECT number, opened FROM period ORDER BY number DESC LIMIT 1").fetchone()
            self._lived = float(connection.execute("SELECT ifnull(max(seconds), 0.0) FROM lived").fetchone()[0])
        self.number, self._opened = (0, 0.0) if row is None else (int(row[0]), float(row[1]))
        self._since = 0.0

    def count(self, renews: Renews, clock: Callable[[], float] = uptime) -> None:
        """Count the time from now on, if the budget is ever there anew."""
        if renews != "never":
            self._least, self._clock, self._since = LEAST_DAYS[renews] * _DAY, clock, clock()

    @property
    def words(self) -> str:
        """What a statement of the budget has to add; empty where the budget never renews."""
        if not self.counting and not self.number:
            return ""
        least = f", which lasts {self._least / _DAY:.0f} days at least" if self.counting else ""
        return f"ε is of one budget period{least}; periods add up, and the ledger's total says to how much"

    @property
    def counting(self) -> bool:
        """Whether the budget is ever there anew."""
        return self._least < float("inf")

    def present(self, mandate: Mandate | None) -> Period | None:
        """The present period under this task; None where there are none."""
        if not self.counting and not self.number:
            return None
        waiting = self.counting and mandate is not None and mandate.period > self.number
        return Period(self.number, self._now() - self._opened, self._least, waiting)

    def live(self, mandate: Mandate | None, *, ending: bool = False) -> bool:
        """Note how long the vault has lived, each hour or when it ends; open a period whose time has come, durably.

        Returns:
            Whether one was opened.

        Raises:
            LedgerError: the disk or the file failed.
        """
        if not self.counting:
            return False
        now, present = self._now(), self.present(mandate)
        opens = mandate is not None and present is not None and present.waiting and present.lived >= present.least
        if opens or ending or now - self._lived >= NOTED_SECONDS:
            with self._writing() as connection:
                connection.execute("INSERT OR REPLACE INTO lived VALUES (1, ?)", (now,))
                if opens and mandate is not None:
                    connection.execute("INSERT INTO period VALUES (?, ?)", (mandate.period, now))
            self._lived, self._since = now, self._clock()
            if opens and mandate is not None:
                self.number, self._opened = mandate.period, now
        return opens

    def _now(self) -> float:
        return self._lived + (max(0.0, self._clock() - self._since) if self.counting else 0.0)
