"""A meter source of one's own: here a made-up counter; in its place read a serial port, a web page or a file."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from sottovoce.data.feed import MeterSource


async def messages(settings: Mapping[str, Any]) -> AsyncIterator[tuple[str, bytes]]:
    """A message (topic, payload) for each reading; `[[feed.formats]]` gives their meaning.

    Args:
        settings: `[feed.settings]`: `every`, seconds between two readings; `watts`, the power of the home.

    Raises:
        OSError: the meter is away; it is asked again later.
    """
    every, watts = float(settings.get("every", 10.0)), float(settings.get("watts", 300.0))
    counted = 1000.0
    while True:
        yield "made-up/counter", f"{counted:.3f}".encode()
        await asyncio.sleep(every)
        counted += watts * every / 3600


SOURCE = MeterSource(messages)
