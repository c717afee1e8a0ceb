"""Threads whose start ends. Python's own `Thread.start` waits without end for a thread that gets no memory to begin."""

import _thread
import threading
from collections.abc import Callable

_START_SECONDS = 10.0


class Background:
    """Work on a thread of its own, which the process does not wait for at its end.

    Args:
        work: is done there, once.

    Raises:
        MemoryError: the thread did not begin.
        RuntimeError: the system refuses another thread.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._began, self._ended = threading.Event(), threading.Event()
        _thread.start_new_thread(self._run, ())
        if not self._began.wait(_START_SECONDS):
            raise MemoryError("a thread did not begin")

    def join(self) -> None:
        """Wait for the end of the work."""
        self._ended.wait()

    def _run(self) -> None:
        try:
            self._began.set()
            self._work()
        finally:
            self._ended.set()
