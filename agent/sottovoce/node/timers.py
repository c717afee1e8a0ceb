"""The learner's timers on the event loop, and logging of unhandled asyncio errors."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from sottovoce.node.wait_status import Waits
from sottovoce.ops import RateLimitedLog


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


_log = logging.getLogger(__name__)
_sparse_log = RateLimitedLog(_log)


def log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that asyncio could not deliver to any caller; see asyncio.loop.set_exception_handler.

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
