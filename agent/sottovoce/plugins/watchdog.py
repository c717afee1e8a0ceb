"""Watchdog that ends the process if a call into a plug-in takes too long, with an error that identifies the plug-in.

A thread cannot be stopped from outside, so the whole process ends. As in a power cut, no important data is lost,
because all of it is durable. Only Sottovoce's own commands enforce this limit; any other program must itself
detect a slow plug-in in its process.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sottovoce.errors import PluginError
from sottovoce.plugins.discovery import Plugin

SECONDS = 5.0
"""Default time limit for a call, in seconds."""
_CHECK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class _Call:
    plugin: Plugin
    description: str
    seconds: float
    began: float


class _Watchdog(threading.Thread):
    """Thread that checks the calls in progress twice a second."""

    def __init__(self, on_late: Callable[[PluginError], object]) -> None:
        super().__init__(name="plug-ins", daemon=True)
        self.calls: dict[int, _Call] = {}
        self._on_late = on_late

    def run(self) -> None:
        while True:
            time.sleep(_CHECK_SECONDS)
            now = time.monotonic()
            for thread, call in list(self.calls.items()):
                if now - call.began > call.seconds:
                    self._on_late(_error(call, thread))
                    return


_on_late: Callable[[PluginError], object] | None = None
_watchdog: _Watchdog | None = None


def set_late_handler(handler: Callable[[PluginError], object]) -> None:
    """Set the function that the watchdog thread calls if a call into a plug-in takes too long."""
    global _on_late
    _on_late = handler


@contextmanager
def timed(plugin: Plugin, description: str, seconds: float) -> Iterator[None]:
    """Time a call for the duration of the context; only the outermost call of a thread counts."""
    watchdog, thread = _running(), threading.get_ident()
    if watchdog is None or thread in watchdog.calls:
        yield
        return
    watchdog.calls[thread] = _Call(plugin, description, seconds, time.monotonic())
    try:
        yield
    finally:
        watchdog.calls.pop(thread, None)


def _running() -> _Watchdog | None:
    global _watchdog
    if _on_late is not None and (_watchdog is None or not _watchdog.is_alive()):
        _watchdog = _Watchdog(_on_late)  # this also restarts the watchdog in a forked process
        _watchdog.start()
    return _watchdog


def _error(call: _Call, thread: int) -> PluginError:
    frame = sys._current_frames().get(thread)
    location = ""
    while frame is not None and not location:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == call.plugin.root:
            location = f", at {frame.f_code.co_filename} line {frame.f_lineno}"
        frame = frame.f_back
    return call.plugin.error(f"{call.description} did not return within {call.seconds:g} s{location}")
