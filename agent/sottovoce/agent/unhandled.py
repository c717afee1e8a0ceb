"""What asyncio cannot hand to anybody, in the words and at the rate of all other lines of the log."""

import asyncio
import logging
from typing import Any

from sottovoce.observe import RateLimitedLog

_log = logging.getLogger(__name__)
_seldom = RateLimitedLog(_log)


def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Take an error that no task waits for; see asyncio.loop.set_exception_handler.

    What the system refuses, such as a descriptor for a connection that comes, is tried again by asyncio each second: it
    is said once a minute. Everything else is a defect, and is told with its traceback.
    """
    error = context.get("exception")
    if isinstance(error, OSError):
        _seldom.say(logging.WARNING, error.errno, "event-loop-fault %s: %s", context["message"], error)
        return
    loop.default_exception_handler(context)
