"""Notify the learner when days of a feed have ended: once at startup, and then at the end of each UTC day."""

import asyncio
from collections.abc import Awaitable, Callable

from sottovoce.days import DAY, last_complete_day
from sottovoce.node.wait_status import Waits

_MAX_PAUSE_SECONDS = 10.0  # short, because the clock may be adjusted during the wait
_WAIT = "day"


class DayWatch:
    """Watcher that reports each day once it has ended by the wall clock.

    Args:
        days: first and last day that may be used for learning.
        clock: returns Unix time in seconds.
        waits: record of the waits in progress.
    """

    def __init__(self, days: tuple[int, int], clock: Callable[[], float], waits: Waits) -> None:
        self._first, self._last = days
        self._clock = clock
        self._waits = waits
        self._last_reported: int | None = None

    async def run(self, stopping: asyncio.Event, report: Callable[[int], Awaitable[None]]) -> None:
        """Report finished days until stopped.

        Args:
            stopping: event that stops the watcher.
            report: called with the number of the last usable day that has ended, whenever that number changes.
        """
        while not stopping.is_set():
            pause = await self.report_ended_day(report)
            self._waits.begin(_WAIT, "the end of the day", pause, repeats=True)
            try:
                async with asyncio.timeout(pause):
                    await stopping.wait()
            except TimeoutError:
                self._waits.end(_WAIT)

    async def report_ended_day(self, report: Callable[[int], Awaitable[None]]) -> float:
        """Report a newly finished day, if there is one, and return the seconds to wait, at most ten."""
        now = self._clock()
        day = last_complete_day(now)
        if day is not None and self._first <= day:
            day = min(day, self._last)
            if day != self._last_reported:
                self._last_reported = day
                await report(day)
        return min(_MAX_PAUSE_SECONDS, DAY - now % DAY)
