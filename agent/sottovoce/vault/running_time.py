"""The total running time of a vault, which is the only clock for budgets over months and years.

This time is the machine's uptime while the vault runs, summed over all runs. It only increases and cannot be set.
A jump of the calendar clock therefore neither renews a budget nor blocks it, and a device that is switched off does not
get closer to its next budget.
"""

import sqlite3
import time
from collections.abc import Callable

from sottovoce.vault.keeper_list import Access

RECORD_INTERVAL = 3_600.0
"""Largest number of seconds of running time that remain unrecorded if the vault is killed."""

DAY = 86_400.0


def uptime() -> float:
    """Return the seconds since the machine was booted, including time in suspension."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class RunningTime:
    """The total time for which one ledger's vault has run. It does not advance until `start_counting` is called.

    Args:
        read_access: opens the ledger's file for reading.
    """

    def __init__(self, read_access: Access) -> None:
        with read_access() as connection:
            self._recorded = float(connection.execute("SELECT ifnull(max(seconds), 0.0) FROM lived").fetchone()[0])
        self._clock: Callable[[], float] | None = None
        self._start = 0.0

    def start_counting(self, clock: Callable[[], float] = uptime) -> None:
        """Start counting now, using a clock that returns seconds."""
        self._clock, self._start = clock, clock()

    @property
    def is_counting(self) -> bool:
        """Whether time is being counted."""
        return self._clock is not None

    @property
    def seconds(self) -> float:
        """The total running time in seconds."""
        return self._recorded + (0.0 if self._clock is None else max(0.0, self._clock() - self._start))

    @property
    def is_due(self) -> bool:
        """Whether the running time should be recorded now."""
        return self.seconds - self._recorded >= RECORD_INTERVAL

    def record(self, connection: sqlite3.Connection) -> float:
        """Write the running time to the ledger, in a transaction that the caller has begun.

        Returns:
            The seconds written; pass them to `mark_recorded` once the transaction is committed.
        """
        seconds = self.seconds
        connection.execute("INSERT OR REPLACE INTO lived VALUES (1, ?)", (seconds,))
        return seconds

    def mark_recorded(self, seconds: float) -> None:
        """Record that this running time, in seconds, is on disk."""
        if self._clock is not None:
            self._recorded, self._start = seconds, self._clock()
