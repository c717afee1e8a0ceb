"""Listing of all plug-ins, and a check that each can be imported."""

from collections.abc import Container
from typing import cast

from sottovoce.config.transport import OWN as TRANSPORTS
from sottovoce.data.feed.meter_source import MeterSource
from sottovoce.data.spec import KINDS as DATA_KINDS
from sottovoce.data.spec import DataKind, parse, unproved_reason
from sottovoce.errors import PluginError
from sottovoce.learning.registry import Algorithm, loaded_algorithms
from sottovoce.net.transports.plugin import TransportPlugin
from sottovoce.plugins import (
    DATA_KIND,
    KINDS,
    LEARNER,
    MECHANISM,
    METER_SOURCE,
    TRANSPORT,
    Plugin,
    find,
    installed_plugins,
    load,
)
from sottovoce.privacy.perturbation import RESERVED_NAMES as MECHANISMS
from sottovoce.privacy.perturbation import RecordMechanismPlugin

_BUILT_IN: dict[str, tuple[type, Container[str]]] = {
    LEARNER: (Algorithm, loaded_algorithms()),
    TRANSPORT: (TransportPlugin, TRANSPORTS),
    MECHANISM: (RecordMechanismPlugin, MECHANISMS),
    DATA_KIND: (DataKind, DATA_KINDS),
    METER_SOURCE: (MeterSource, ()),
}


def all_plugins() -> list[Plugin]:
    """Return every plug-in of every installed package, sorted by kind and name."""
    plugins: list[Plugin] = []
    for kind in KINDS:
        for _, same_name in sorted(installed_plugins(kind).items()):
            plugins.extend(same_name)
    return plugins


def find_problem(plugin: Plugin) -> str | None:
    """Return the error that a plug-in's name or its import causes, or how a data kind breaks the rule for its records.

    Returns:
        None if there is no error.
    """
    expected_type, built_in = _BUILT_IN[plugin.kind]
    try:
        find(plugin.kind, plugin.name, built_in)
        loaded = load(plugin, expected_type)
        if isinstance(loaded, DataKind) and loaded.write is not None:
            return unproved_reason(parse(loaded.example)) or None
    except PluginError as error:
        return str(error)
    return None


def find_caveat(plugin: Plugin) -> str | None:
    """Return why runs with a working plug-in are not proved; None if nothing about the plug-in speaks against it."""
    if plugin.kind != DATA_KIND:
        return None
    return unproved_reason(parse(cast(DataKind, load(plugin, DataKind)).example)) or None
