"""The learner's timers, on the event loop."""

import asyncio
from collections.abc import Callable

from sottovoce.agent.wait_status import Waits


class Timers:
    """Timers by name, at most one of each name at a time.

    Args:
        waits: the metric of waits in progress.
        due: called with the name of a timer when it is due.
    """

    def __init__(self, waits: Waits, due: Callable[[str], None]) -> None:
        self._waits = waits
        self._on_due = due
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def set(self, name: str, at: float) -> None:
        """Set a timer to a time of the event loop's clock, in place of an earlier timer of this name."""
        if name in self._handles:
            self._handles[name].cancel()
        loop = asyncio.get_running_loop()
        self._waits.begin(f"timer:{name}", f"the next {name}", at - loop.time())
        self._handles[name] = loop.call_at(at, self._expire, name)

    def cancel(self) -> None:
        """Cancel all timers."""
        for timer in self._handles.values():
            timer.cancel()

    def _expire(self, name: str) -> None:
        del self._handles[name]
        self._waits.end(f"timer:{name}")
        self._on_due(name)
