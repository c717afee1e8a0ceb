"""The learner's timers, which run on the event loop."""

import asyncio
from collections.abc import Callable

from sottovoce.agent.wait_status import Waits


class Timers:
    """Named timers; at most one timer of each name exists at a time.

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
