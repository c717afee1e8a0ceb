"""Listing of the plug-ins of every kind, and a check that each can be imported."""

from collections.abc import Container

from sottovoce.config.transport import OWN as TRANSPORTS
from sottovoce.data.feed.meter_source import MeterSource
from sottovoce.data.spec import KINDS as DATA_KINDS
from sottovoce.data.spec import DataKind
from sottovoce.errors import PluginError
from sottovoce.perturbation import OWN as MECHANISMS
from sottovoce.perturbation import RecordMechanismPlugin
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
from sottovoce.registry import Algorithm, loaded_algorithms
from sottovoce.transport.plugin import TransportPlugin

_OWN: dict[str, tuple[type, Container[str]]] = {
    LEARNER: (Algorithm, loaded_algorithms()),
    TRANSPORT: (TransportPlugin, TRANSPORTS),
    MECHANISM: (RecordMechanismPlugin, MECHANISMS),
    DATA_KIND: (DataKind, DATA_KINDS),
    METER_SOURCE: (MeterSource, ()),
}


def all_plugins() -> list[Plugin]:
    """Return every plug-in of every installed package, sorted by kind and name."""
    return [plugin for kind in KINDS for _, found in sorted(installed_plugins(kind).items()) for plugin in found]


def problem_of(plugin: Plugin) -> str | None:
    """Return the error that a plug-in's name or import causes; None if there is no error."""
    wanted, own = _OWN[plugin.kind]
    try:
        find(plugin.kind, plugin.name, own)
        load(plugin, wanted)
    except PluginError as error:
        return str(error)
    return None
