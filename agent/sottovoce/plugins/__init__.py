"""Plug-ins from other packages, found through entry points, loaded on demand, and called under a guard."""

from sottovoce.plugins.discovery import (
    DATA_KIND,
    KINDS,
    LEARNER,
    MECHANISM,
    METER_SOURCE,
    TRANSPORT,
    Plugin,
    find,
    installed_plugins,
)
from sottovoce.plugins.guard import attribute_to_plugin, await_guarded, guarded, guarded_proxy
from sottovoce.plugins.loading import load
from sottovoce.plugins.watchdog import set_late_handler

__all__ = [
    "DATA_KIND",
    "KINDS",
    "LEARNER",
    "MECHANISM",
    "METER_SOURCE",
    "TRANSPORT",
    "Plugin",
    "attribute_to_plugin",
    "await_guarded",
    "find",
    "guarded",
    "guarded_proxy",
    "installed_plugins",
    "load",
    "set_late_handler",
]
