"""What a ledger may write in a day is spent evenly: a device that writes much goes slower, and never stops."""

import asyncio
import contextlib
import logging
import time

from sottovoce.agent.waits import Waits

_log = logging.getLogger(__name__)
_DAY_SECONDS = 86_400
_WAIT = "wear"
_AT_ONCE = 0.25  # of a day's bytes, which may be written as soon as the day begins


class Rest:
    """Between two releases, as long as the ledger has written more than its share of the day so far.

    Args:
        most: bytes in a day, UTC.
        waits: told what is waited for.
        stopping: ends the wait.
    """

    def __init__(self, most: int, waits: Waits, stopping: asyncio.Event) -> None:
        self._most = most
        self._waits = waits
        self._stopping = stopping
        self._told = -1

    async def taken(self, written: int) -> bool:
        """Wait, if it has written so many bytes today that it must; False when the agent stops."""
        now = time.time()
        if (seconds := pause(written, self._most, now)) > 0:
            if self._told != (day := int(now // _DAY_SECONDS)):  # once a day
                self._told = day
                _log.warning("ledger-rests it has written %d bytes today, and goes slower: bytes_per_day", written)
            self._waits.begin(_WAIT, "the ledger to be allowed to write more: ledger.bytes_per_day", seconds)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), seconds)
            self._waits.end(_WAIT)
        return not self._stopping.is_set()


def pause(written: int, most: int, now: float) -> float:
    """Seconds until so many bytes may have been written on this day, UTC: a part at once, the rest by the clock.

    Args:
        written: today.
        most: in a day.
        now: seconds since 1970.
    """
    elapsed = now % _DAY_SECONDS
    if written >= most:
        return _DAY_SECONDS - elapsed
    due = (written / most - _AT_ONCE) / (1 - _AT_ONCE) * _DAY_SECONDS
    return max(0.0, due - elapsed)
