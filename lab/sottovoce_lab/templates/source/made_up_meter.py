"""Example of your own meter source: a made-up counter, to be replaced with a serial port, a web page or a file."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from sottovoce.plugin import MeterSource


async def messages(settings: Mapping[str, Any]) -> AsyncIterator[tuple[str, bytes]]:
    """Yield a message (topic, payload) for each reading; `[[feed.formats]]` defines how messages are interpreted.

    Args:
        settings: the table `[feed.settings]`, with the keys `every`, the seconds between readings, and `watts`, the
            home's power in watts.

    Raises:
        OSError: if the meter cannot be reached; the agent retries later.
    """
    every, watts = float(settings.get("every", 10.0)), float(settings.get("watts", 300.0))
    counted = 1000.0
    while True:
        yield "made-up/counter", f"{counted:.3f}".encode()
        await asyncio.sleep(every)
        counted += watts * every / 3600


SOURCE = MeterSource(messages)
