"""The waits of an agent: a record of them, the learner's timers, the end of a day, and leave to write.

Each wait has a reason, and a deadline or the time of the next check. The write throttle spreads a day's allowance
evenly, so that a device that writes a lot slows down but never stops.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sottovoce.days import DAY, last_complete_day
from sottovoce.ops.machine import written_bytes
from sottovoce.storage.disk_writes import DAY_SECONDS, DailyTotal

_MAX_DAY_PAUSE_SECONDS = 10.0  # short, because the clock may be adjusted during the wait
_WAIT = "day"
_log = logging.getLogger(__name__)
_RESTS = ("wear", "disk-wear")  # names of the waits below
_INITIAL_FRACTION = 0.25  # fraction of a day's bytes that may be written as soon as the day begins
_BLOCKS_PER_DAY, _MIN_BLOCK_BYTES = 128, 2**16  # a restart after a crash costs up to a block of the allowance
_counted: dict[Callable[[], int], int] = {}  # by all counters of this process, which may run several agents in turn


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait in progress, with times on the monotonic clock.

    Attributes:
        reason: description of what the agent is waiting for.
        since: start of the wait.
        until: latest end of the wait, or, if the wait repeats, the time of the next check.
        repeats: whether the wait may continue after `until`.
        counted_until: time up to which the wait is included in the total of its kind.
    """

    reason: str
    since: float
    until: float
    repeats: bool
    counted_until: float


@dataclass(slots=True)
class WaitTotals:
    """Totals for one kind of wait.

    Attributes:
        count: number of waits begun.
        seconds: total duration of these waits in seconds; a wait in progress is added when it ends or begins again.
    """

    count: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Waits:
    """Waits in progress by name, and totals of waits by kind. The kind is the part of a name before its colon."""

    current: dict[str, Wait] = field(default_factory=dict)
    totals: dict[str, WaitTotals] = field(default_factory=dict)

    def begin(
        self, name: str, reason: str, seconds: float, since: float | None = None, *, repeats: bool = False
    ) -> None:
        """Begin a wait of at most `seconds`, or continue the one begun at `since`; replaces any wait of this name.

        A repeating wait has no such limit: its condition is checked again after `seconds`.
        """
        now = time.monotonic()
        is_continuation = since is not None and name in self.current
        self.end(name)
        self.totals.setdefault(_kind(name), WaitTotals()).count += not is_continuation
        self.current[name] = Wait(reason, now if since is None else since, now + seconds, repeats, now)

    def end(self, name: str) -> None:
        """End the wait of this name, if there is one."""
        if (wait := self.current.pop(name, None)) is not None:
            self.totals[_kind(name)].seconds += time.monotonic() - wait.counted_until

    def to_dict(self) -> list[dict[str, str | float | bool]]:
        """Return the waits for `agent status --why`, with the seconds since the start and the seconds left."""
        now = time.monotonic()
        return [
            {
                "name": name,
                "reason": wait.reason,
                "since_s": round(now - wait.since, 3),
                "left_s": round(wait.until - now, 3),
                "repeats": wait.repeats,
            }
            for name, wait in sorted(self.current.items())
        ]


def _kind(name: str) -> str:
    return name.partition(":")[0]


class Timers:
    """Named timers, at most one per name.

    Args:
        waits: record of the waits in progress.
        on_due: called with the timer's name when it is due.
    """

    def __init__(self, waits: Waits, on_due: Callable[[str], None]) -> None:
        self._waits = waits
        self._on_due = on_due
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def set(self, name: str, deadline: float) -> None:
        """Set a timer to a time on the event loop's clock, replacing any earlier timer of this name."""
        if name in self._handles:
            self._handles[name].cancel()
        loop = asyncio.get_running_loop()
        self._waits.begin(f"timer:{name}", f"the next {name}", deadline - loop.time())
        self._handles[name] = loop.call_at(deadline, self._expire, name)

    def cancel(self) -> None:
        """Cancel all timers."""
        for timer in self._handles.values():
            timer.cancel()

    def _expire(self, name: str) -> None:
        del self._handles[name]
        self._waits.end(f"timer:{name}")
        self._on_due(name)


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
        return min(_MAX_DAY_PAUSE_SECONDS, DAY - now % DAY)


def leave_out_earlier_writes() -> None:
    """Leave out what this process has written so far: the program around the agent wrote it, and not the device."""
    _counted[written_bytes] = written_bytes()


class DailyCounter:
    """Bytes that this process has written since midnight UTC, and earlier processes before it.

    Args:
        path: file that keeps the total across restarts.
        limit: limit in bytes per UTC day.
        count: returns the number of bytes that this process has written since it started. Those that no earlier
            counter of the process has counted are added at once: a device that crashes at each start writes too.
        clock: returns seconds since 1970.

    Raises:
        OSError: if the file cannot be read or written.
    """

    def __init__(
        self, path: Path, limit: int, count: Callable[[], int] = written_bytes, clock: Callable[[], float] = time.time
    ) -> None:
        block = max(_MIN_BLOCK_BYTES, limit // _BLOCKS_PER_DAY)
        # A corrupt file grants no part of the allowance that is available when the day begins.
        self._total = DailyTotal(path, block, if_corrupt=int(limit * _INITIAL_FRACTION), clock=clock)
        self._count, self._counted = count, _counted.get(count, 0)
        self.update()

    def __call__(self) -> int:
        """Return the bytes written today."""
        return self._total.bytes_today + self._count() - self._counted

    def update(self) -> None:
        """Add the bytes written since the last call to the total; this may wait for the disk.

        Raises:
            OSError: if the total cannot be written.
        """
        count = self._count()
        new, self._counted = count - self._counted, count
        _counted[self._count] = count
        self._total.add(new)

    def close(self) -> None:
        """Write the exact total and close its file."""
        with contextlib.suppress(OSError):  # the file is ahead of the total
            self.update()
        self._total.close()


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
            day = int(now // DAY_SECONDS)
            if day != self._last_logged_day:  # log once a day
                self._last_logged_day = day
                self.log_slowdown(written)
            self.waits.begin(self.wait_name, self.reason, seconds)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), seconds)
            self.waits.end(self.wait_name)
        return not self.stopping.is_set()


def resting_until(waits: Waits) -> datetime | None:
    """Return the time until which the agent writes nothing because its quota is used up; None if it is not resting."""
    ends = [wait.until for name in _RESTS if (wait := waits.current.get(name)) is not None]
    return datetime.now(UTC) + timedelta(seconds=max(ends) - time.monotonic()) if ends else None


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
    elapsed = now % DAY_SECONDS
    if written >= limit:
        return DAY_SECONDS - elapsed
    allowed_at = (written / limit - _INITIAL_FRACTION) / (1 - _INITIAL_FRACTION) * DAY_SECONDS
    return max(0.0, allowed_at - elapsed)
