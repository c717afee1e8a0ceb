"""Watchdog over calls into plug-ins: a call that takes too long ends the process, and the error names the plug-in.

A thread cannot be stopped from outside, so the whole process ends; everything that matters is durable, as after a power
cut. Only Sottovoce's commands enforce this; in another program's process, that program must notice a slow plug-in.
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
"""Seconds that a call may take."""
_LOOKS_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class _Call:
    plugin: Plugin
    words: str
    seconds: float
    began: float


class _Watchdog(threading.Thread):
    """Watchdog that checks the calls in progress twice a second."""

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
    """Call `late`, on a thread of its own, whenever a call into a plug-in takes too long."""
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
        _watchdog = _Watchdog(_late)  # also in a process that was forked
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
