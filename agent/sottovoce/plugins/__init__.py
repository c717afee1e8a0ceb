"""Plug-ins from other packages: found by entry points, loaded when they are named, and called under a guard."""

from sottovoce.plugins.discovery import (
    DATA_KIND,
    KINDS,
    LEARNER,
    MECHANISM,
    METER_SOURCE,
    TRANSPORT,
    Plugin,
    find,
    installed,
)
from sottovoce.plugins.guard import attributed, guarded, stepped, watched
from sottovoce.plugins.loading import load
from sottovoce.plugins.watchdog import enforce

__all__ = [
    "DATA_KIND",
    "KINDS",
    "LEARNER",
    "MECHANISM",
    "METER_SOURCE",
    "TRANSPORT",
    "Plugin",
    "attributed",
    "enforce",
    "find",
    "guarded",
    "installed",
    "load",
    "stepped",
    "watched",
]
