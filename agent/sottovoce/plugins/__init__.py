"""Plug-ins from other packages, found through entry points, loaded on demand, and named in the errors they cause."""

from sottovoce.plugins.attribution import find_author, find_plugin_error, loaded_plugins, plugin_errors
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
from sottovoce.plugins.loading import load

__all__ = [
    "DATA_KIND",
    "KINDS",
    "LEARNER",
    "MECHANISM",
    "METER_SOURCE",
    "TRANSPORT",
    "Plugin",
    "find",
    "find_author",
    "find_plugin_error",
    "installed_plugins",
    "load",
    "loaded_plugins",
    "plugin_errors",
]
