"""Time that a vault has been at work, the only clock for budgets over months and years.

It is the machine's uptime while the vault runs, added up over its runs: it only increases and cannot be set. So a
calendar that jumps renews nothing and locks nothing, and a device that is off does not get closer to its next budget.
"""

import sqlite3
import time
from collections.abc import Callable

from sottovoce.vault.keeper_list import Access

NOTED_SECONDS = 3_600.0
"""Seconds that a killed vault may lose from its recorded life."""

DAY = 86_400.0


def uptime() -> float:
    """Return the seconds since the machine was started, suspended or not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Life:
    """Time that one ledger's vault has been at work. It does not advance until `start_counting`.

    Args:
        reading: opens the ledger's file for reading.
    """

    def __init__(self, reading: Access) -> None:
        with reading() as connection:
            self._noted = float(connection.execute("SELECT ifnull(max(seconds), 0.0) FROM lived").fetchone()[0])
        self._clock: Callable[[], float] | None = None
        self._since = 0.0

    def start_counting(self, clock: Callable[[], float] = uptime) -> None:
        """Count from now on, by this clock of seconds."""
        self._clock, self._since = clock, clock()

    @property
    def counting(self) -> bool:
        """Whether the time is being counted."""
        return self._clock is not None

    @property
    def seconds(self) -> float:
        """The whole life, in seconds."""
        return self._noted + (0.0 if self._clock is None else max(0.0, self._clock() - self._since))

    @property
    def due(self) -> bool:
        """Whether it is time to note the vault's life."""
        return self.seconds - self._noted >= NOTED_SECONDS

    def note(self, connection: sqlite3.Connection) -> float:
        """Write the vault's life into the ledger, in a transaction that the caller has begun.

        Returns:
            the seconds written, for `noted` once the transaction is committed.
        """
        seconds = self.seconds
        connection.execute("INSERT OR REPLACE INTO lived VALUES (1, ?)", (seconds,))
        return seconds

    def noted(self, seconds: float) -> None:
        """Record that this many seconds of the vault's life are on the disk."""
        if self._clock is not None:
            self._noted, self._since = seconds, self._clock()
