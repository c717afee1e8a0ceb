"""Logging of unhandled asyncio errors, in the format and with the rate limit of all other log lines."""

import asyncio
import logging
from typing import Any

from sottovoce.observe import RateLimitedLog

_log = logging.getLogger(__name__)
_sparse_log = RateLimitedLog(_log)


def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that no task is waiting for; see asyncio.loop.set_exception_handler.

    If the system refuses a resource that is requested again later, such as a file descriptor or memory, at most one
    line a minute is logged. Any other error is a defect and is logged with its traceback, at most once a minute for
    each kind.
    """
    error, message = context.get("exception"), context["message"]
    if isinstance(error, OSError | MemoryError):
        cause = error.errno if isinstance(error, OSError) else "memory"
        _sparse_log.log(logging.WARNING, cause, "event-loop-fault %s: %s", message, str(error) or "no memory")
    elif _sparse_log.should_log((message, type(error))):
        loop.default_exception_handler(context)
