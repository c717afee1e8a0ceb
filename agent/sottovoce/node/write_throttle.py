"""Write throttle that spreads a day's allowance evenly, so a device that writes a lot slows down but never stops."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sottovoce.node.wait_status import Waits

_log = logging.getLogger(__name__)
_DAY_SECONDS = 86_400
_INITIAL_FRACTION = 0.25  # fraction of a day's bytes that may be written as soon as the day begins


@dataclass(slots=True)
class DailyCounter:
    """A counter's growth since midnight UTC, or since this object was created if that is later.

    Attributes:
        count: returns the counter's total.
        clock: returns seconds since 1970.
    """

    count: Callable[[], int]
    clock: Callable[[], float] = time.time
    _day: int = field(init=False)
    _start_count: int = field(init=False)

    def __post_init__(self) -> None:
        self._day, self._start_count = self._today(), self.count()

    def __call__(self) -> int:
        """Return the counter's growth today."""
        if (day := self._today()) != self._day:
            self._day, self._start_count = day, self.count()
        return self.count() - self._start_count

    def _today(self) -> int:
        return int(self.clock() // _DAY_SECONDS)


@dataclass(slots=True)
class WriteThrottle:
    """A throttle that blocks while today's writes exceed the part of the day's allowance that is available so far.

    Attributes:
        limit: limit in bytes per UTC day.
        count_written: returns the bytes written today.
        waits: record of the waits in progress.
        stopping: event that ends the wait.
        wait_name: name of the wait.
        reason: reason for the wait.
        log_slowdown: logs the number of bytes written.
    """

    limit: int
    count_written: Callable[[], int]
    waits: Waits
    stopping: asyncio.Event
    wait_name: str
    reason: str
    log_slowdown: Callable[[int], None]
    _last_logged_day: int = field(default=-1, init=False)

    async def wait_if_needed(self) -> bool:
        """Wait if today's writes require it; return False if the agent is stopping."""
        written, now = self.count_written(), time.time()
        if (seconds := seconds_to_wait(written, self.limit, now)) > 0:
            day = int(now // _DAY_SECONDS)
            if day != self._last_logged_day:  # log once a day
                self._last_logged_day = day
                self.log_slowdown(written)
            self.waits.begin(self.wait_name, self.reason, seconds)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), seconds)
            self.waits.end(self.wait_name)
        return not self.stopping.is_set()


def make_ledger_throttle(
    limit: int, count_written: Callable[[], int], waits: Waits, stopping: asyncio.Event
) -> WriteThrottle:
    """Return the throttle for the ledger's writes."""

    def log_slowdown(count: int) -> None:
        _log.warning(
            "ledger-rests the ledger has written %d bytes today and is slowing down to stay within "
            "ledger.bytes_per_day",
            count,
        )

    reason = "the ledger's write quota to refill (ledger.bytes_per_day)"
    return WriteThrottle(
        limit, count_written, waits, stopping, wait_name="wear", reason=reason, log_slowdown=log_slowdown
    )


def make_file_throttle(
    limit: int, count_written: Callable[[], int], waits: Waits, stopping: asyncio.Event
) -> WriteThrottle:
    """Return the throttle for the agent's file writes."""

    def log_slowdown(count: int) -> None:
        _log.warning(
            "device-rests the agent has written %d bytes today and is slowing down to stay within agent.bytes_per_day",
            count,
        )

    reason = "this device's write quota to refill (agent.bytes_per_day)"
    return WriteThrottle(
        limit, count_written, waits, stopping, wait_name="disk-wear", reason=reason, log_slowdown=log_slowdown
    )


def seconds_to_wait(written: int, limit: int, now: float) -> float:
    """Return the seconds until the bytes written today are within the allowance of this UTC day.

    Part of the allowance is available at the start of the day; the rest becomes available evenly over the day.

    Args:
        written: bytes written today.
        limit: bytes allowed in a day.
        now: seconds since 1970.
    """
    elapsed = now % _DAY_SECONDS
    if written >= limit:
        return _DAY_SECONDS - elapsed
    allowed_at = (written / limit - _INITIAL_FRACTION) / (1 - _INITIAL_FRACTION) * _DAY_SECONDS
    return max(0.0, allowed_at - elapsed)
