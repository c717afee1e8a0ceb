"""Listing of all plug-ins, and a check that each can be loaded, and that each learner runs."""

from collections.abc import Container
from typing import cast

from sottovoce.config.feed import OWN_SOURCES
from sottovoce.config.transport import OWN as TRANSPORTS
from sottovoce.data.feed.meter_source import MeterSource
from sottovoce.data.spec import KINDS as DATA_KINDS, DataKind, parse, unproved_reason
from sottovoce.errors import PluginError, SottovoceError
from sottovoce.learning.registry import ALGORITHMS, Algorithm, loaded_algorithms
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
    plugin_errors,
)
from sottovoce.privacy.perturbation import RESERVED_NAMES as MECHANISMS, RecordMechanismPlugin

_CYCLES = 4
"""Cycles that a learner is played for; the devices restart after two, and messages arrive from the second on."""
_BUILT_IN: dict[str, tuple[type, Container[str]]] = {
    LEARNER: (Algorithm, loaded_algorithms()),
    TRANSPORT: (TransportPlugin, TRANSPORTS),
    MECHANISM: (RecordMechanismPlugin, MECHANISMS),
    DATA_KIND: (DataKind, DATA_KINDS),
    METER_SOURCE: (MeterSource, OWN_SOURCES),
}


def all_plugins() -> list[Plugin]:
    """Return every plug-in of every installed package, sorted by kind and name."""
    plugins: list[Plugin] = []
    for kind in KINDS:
        for _, same_name in sorted(installed_plugins(kind).items()):
            plugins.extend(same_name)
    return plugins


def find_problem(plugin: Plugin) -> str | None:
    """Return the error that a plug-in's name or its import causes, or how a learner or a data kind breaks its rules.

    A learner is played with its default settings, since an import shows neither a missing method nor a missing codec.

    Returns:
        None if there is no error.
    """
    expected_type, built_in = _BUILT_IN[plugin.kind]
    try:
        find(plugin.kind, plugin.name, built_in)
        loaded = load(plugin, expected_type)
        if isinstance(loaded, DataKind) and loaded.write is not None:
            return unproved_reason(parse(loaded.example)) or None
        if isinstance(loaded, Algorithm):
            _play(plugin)
    except PluginError as error:
        return str(error)
    return None


def _play(plugin: Plugin) -> None:
    """Play a small fleet of a learner.

    Raises:
        PluginError: if the learner breaks the contract, or cannot run with its default settings.
    """
    from sottovoce.testing import check_learner

    if ALGORITHMS[plugin.name].secure_sums == "always":
        return  # needs a roster, which a device has and the contract suite does not
    try:
        with plugin_errors(plugin, passing=(AssertionError, SottovoceError)):
            check_learner(plugin.name, cycles=_CYCLES)
    except PluginError:
        raise
    except (AssertionError, SottovoceError) as error:
        raise plugin.error(str(error)) from error


def find_caveat(plugin: Plugin) -> str | None:
    """Return why runs with a working plug-in are not proved; None if nothing about the plug-in speaks against it."""
    if plugin.kind != DATA_KIND:
        return None
    return unproved_reason(parse(cast(DataKind, load(plugin, DataKind)).example)) or None
