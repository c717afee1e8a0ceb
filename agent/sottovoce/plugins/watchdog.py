"""Watchdog that ends the process if a call into a plug-in takes too long, with an error that identifies the plug-in.

A thread cannot be stopped from outside, so the whole process ends; all important data is durable, as after a power cut.
Only Sottovoce's own commands enforce this limit. Another program must itself detect a slow plug-in in its process.
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
_LOOKS_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class _Call:
    plugin: Plugin
    words: str
    seconds: float
    began: float


class _Watchdog(threading.Thread):
    """Thread that checks the calls in progress twice a second."""

    def __init__(self, late: Callable[[PluginError], object]) -> None:
        super().__init__(name="plug-ins", daemon=True)
        self.calls: dict[int, _Call] = {}
        self._late = late

    def run(self) -> None:
        while True:
            time.sleep(_LOOKS_EVERY)
            now = time.monotonic()
            for thread, call in list(self.calls.items()):
                if now - call.began > call.seconds:
                    self._late(_error(call, thread))
                    return


_late: Callable[[PluginError], object] | None = None
_watchdog: _Watchdog | None = None


def set_late_handler(late: Callable[[PluginError], object]) -> None:
    """Set the function that the watchdog thread calls if a call into a plug-in takes too long."""
    global _late
    _late = late


@contextmanager
def timed(plugin: Plugin, words: str, seconds: float) -> Iterator[None]:
    """Time a call for the duration of the context; only the outermost call of a thread counts."""
    watchdog, thread = _running(), threading.get_ident()
    if watchdog is None or thread in watchdog.calls:
        yield
        return
    watchdog.calls[thread] = _Call(plugin, words, seconds, time.monotonic())
    try:
        yield
    finally:
        watchdog.calls.pop(thread, None)


def _running() -> _Watchdog | None:
    global _watchdog
    if _late is not None and (_watchdog is None or not _watchdog.is_alive()):
        _watchdog = _Watchdog(_late)  # this also restarts the watchdog in a forked process
        _watchdog.start()
    return _watchdog


def _error(call: _Call, thread: int) -> PluginError:
    frame = sys._current_frames().get(thread)
    where = ""
    while frame is not None and not where:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == call.plugin.root:
            where = f", at {frame.f_code.co_filename} line {frame.f_lineno}"
        frame = frame.f_back
    return call.plugin.error(f"{call.words} takes longer than {call.seconds:g} s{where}")
