"""The vault's two clocks: its total running time, and the last day that has ended.

Running time is the machine's uptime while the vault runs, summed over all runs. It is the only clock for monthly and
yearly budgets, it only increases, and it cannot be set. A jump of the calendar clock therefore neither renews a
budget nor blocks it, and a device that is switched off does not get closer to its next budget.

The last day that has ended comes from a wall clock that is trusted only while it is steady. If the vault trusted a
clock that had jumped, it could repeatedly charge future days until none of them had any budget left. After a jump, no
day therefore counts as ended until the clock has agreed with the machine's uptime for six hours. This pause is the only
cost of a jump. After a start, the clock is trusted immediately if it shows a day near the last charged day.
"""

import logging
import sqlite3
import time
from collections.abc import Callable

from sottovoce.days import last_complete_day
from sottovoce.privacy.ledger.witnesses import Access

RECORD_INTERVAL = 3_600.0
"""Maximum number of seconds of running time that are lost if the vault is killed."""

DAY = 86_400.0


def uptime() -> float:
    """Return the seconds since the machine booted, including time spent suspended."""
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


STEADY_SECONDS = 6 * 3600.0
"""Seconds for which the clock has to agree with the uptime after a jump."""

_log = logging.getLogger(__name__)
_JUMP_SECONDS = 3600.0
_MAX_OFF_DAYS = 31
"""If a device was off for more than this number of days, its clock is not trusted at first, as after a jump."""


class TrustedDays:
    """Callable that returns the last day that has ended.

    Call it regularly. A jump that is reversed between two calls goes unnoticed, which is harmless.

    Args:
        clock: returns Unix time in seconds.
        charged: number of the last day that the ledger has charged; None before the first charge.
        monotonic_clock: returns the seconds of a monotonic clock that cannot be set; by default, the machine's uptime.
    """

    def __init__(
        self, clock: Callable[[], float], charged: int | None, monotonic_clock: Callable[[], float] | None = None
    ) -> None:
        self._clock, self._uptime = clock, monotonic_clock or uptime
        now, last_day = self._uptime(), last_complete_day(clock())
        self._offset, self._steady_since = clock() - now, now
        self._is_trusted = last_day is None or charged is None or charged - 1 <= last_day <= charged + _MAX_OFF_DAYS
        if not self._is_trusted:
            self._warn("the last day that was charged is far from the current day")

    def __call__(self) -> int | None:
        """Return the number of the last day that has ended; None while the clock is not set or not trusted."""
        wall, now = self._clock(), self._uptime()
        if abs(wall - now - self._offset) > _JUMP_SECONDS:
            if self._is_trusted or now - self._steady_since > _JUMP_SECONDS:
                self._warn("the clock was set")
            self._offset, self._steady_since, self._is_trusted = wall - now, now, False
        if not self._is_trusted and now - self._steady_since >= STEADY_SECONDS:
            self._is_trusted = True
            _log.info("clock-believed")
        return last_complete_day(wall) if self._is_trusted else None

    @staticmethod
    def _warn(reason: str) -> None:
        _log.warning(
            "clock-jumped %s; no day is charged until the clock has been steady for %.0f hours",
            reason,
            STEADY_SECONDS / 3600,
        )
