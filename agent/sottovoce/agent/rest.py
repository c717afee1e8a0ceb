"""A ledger that has written enough today rests until tomorrow."""

import asyncio
import contextlib
import logging
import time

from sottovoce.agent.waits import Waits

_log = logging.getLogger(__name__)
_DAY_SECONDS = 86_400


async def rested(written: int, most: int, waits: Waits, stopping: asyncio.Event) -> bool:
    """Wait for the next day, UTC, if the ledger has written enough today.

    Args:
        written: bytes, today.
        most: bytes in a day.
        waits: told what is waited for.
        stopping: ends the wait.

    Returns:
        False when the agent stops.
    """
    if written >= most:
        left = _DAY_SECONDS - time.time() % _DAY_SECONDS
        _log.warning("ledger-rests it has written %d bytes today: ledger.bytes_per_day", written)
        waits.begin("wear", "the next day, UTC: the ledger has written its ledger.bytes_per_day", left)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), left)
        waits.end("wear")
    return not stopping.is_set()
