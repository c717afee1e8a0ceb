"""Notification of the learner about finished days of a feed: at the start, and at the end of each day, UTC."""

import asyncio
from collections.abc import Awaitable, Callable

from sottovoce.agent.wait_status import Waits
from sottovoce.days import DAY, last_day_over

_LONGEST = 10.0  # seconds; short, because the clock may be set during the wait
_WAIT = "day"


class DayWatch:
    """Watch for the end of days on the wall clock.

    Args:
        days: the first and the last day that may be used for learning.
        clock: clock that returns seconds of Unix time.
        waits: the metric of waits in progress.
    """

    def __init__(self, days: tuple[int, int], clock: Callable[[], float], waits: Waits) -> None:
        self._first, self._last = days
        self._clock = clock
        self._waits = waits
        self._last_told: int | None = None

    async def run(self, stopping: asyncio.Event, tell: Callable[[int], Awaitable[None]]) -> None:
        """Check for a finished day, and wait for the next midnight, until stopped.

        Args:
            stopping: event that ends the watch.
            tell: called with the number of the last of these days that has ended, whenever it changes.
        """
        while not stopping.is_set():
            pause = await self.report_ended_day(tell)
            self._waits.begin(_WAIT, "the day to end", pause, repeats=True)
            try:
                async with asyncio.timeout(pause):
                    await stopping.wait()
            except TimeoutError:
                self._waits.end(_WAIT)

    async def report_ended_day(self, tell: Callable[[int], Awaitable[None]]) -> float:
        """Report a day that has ended; return the seconds to wait, ten at most."""
        now = self._clock()
        day = last_day_over(now)
        if day is not None and self._first <= day and (day := min(day, self._last)) != self._last_told:
            self._last_told = day
            await tell(day)
        return min(_LONGEST, DAY - now % DAY)
