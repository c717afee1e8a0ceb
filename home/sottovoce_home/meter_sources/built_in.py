"""The built-in meter sources, of which one is imported when a configuration chooses it."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from sottovoce.errors import ConfigError
from sottovoce.suggestions import suggest_name

Messages = Callable[[], AsyncIterator[tuple[str, bytes]]]
"""Function that connects to a device and yields (topic, payload); the next call connects again."""


@dataclass(frozen=True, slots=True)
class OwnSource:
    """A built-in source with its settings.

    Attributes:
        messages: its messages.
        topics: the topics of its messages.
    """

    messages: Messages
    topics: tuple[str, ...]


_Settings = TypeVar("_Settings", bound=msgspec.Struct)
_LIBRARIES = ("aiohttp", "backoff", "dsmr_parser", "homewizard_energy", "pymodbus", "sml", "smllib")


def open_built_in(name: str, settings: Mapping[str, Any]) -> OwnSource:
    """Return a built-in source.

    Args:
        name: name of the source, one of `OWN_SOURCES`, which is also that of its extra.
        settings: the table `[feed.settings]`.

    Raises:
        ConfigError: if the source's extra is not installed, or a setting is wrong.
    """
    for library in _LIBRARIES:
        logging.getLogger(library).setLevel(logging.CRITICAL + 1)  # they log what they read
    try:
        return _open(name, settings)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise ConfigError(
            f"feed.source: {name} requires the package {package}, which is not installed; install sottovoce[{name}]"
        ) from error


def _open(name: str, settings: Mapping[str, Any]) -> OwnSource:
    if name == "homewizard":
        from sottovoce_home.meter_sources import homewizard

        devices = _settings(settings, homewizard.Settings)
        return OwnSource(lambda: homewizard.messages(devices), devices.topics)
    if name == "modbus":
        from sottovoce_home.meter_sources import modbus

        registers = _settings(settings, modbus.Settings)
        return OwnSource(lambda: modbus.messages(registers), registers.topics)
    if name == "p1":
        from sottovoce_home.meter_sources import p1

        port = _settings(settings, p1.Settings)
        return OwnSource(lambda: p1.messages(port), (p1.TOPIC,))
    from sottovoce_home.meter_sources import sml

    head = _settings(settings, sml.Settings)
    return OwnSource(lambda: sml.messages(head), (sml.TOPIC,))


def _settings(settings: Mapping[str, Any], expected: type[_Settings]) -> _Settings:
    """Return the settings as the source's own type.

    Raises:
        ConfigError: if a setting is missing, unknown or wrong.
    """
    known = expected.__struct_fields__
    for key in settings:
        if key not in known:
            similar = suggest_name(key, known)
            hint = "" if similar is None else f"did you mean {similar}? "
            raise ConfigError(f"feed.settings.{key}: unknown setting; {hint}choose one of {', '.join(known)}")
    try:
        return msgspec.convert(dict(settings), expected)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        raise ConfigError(f"feed.settings{path.rstrip('`')}: {problem}") from error
