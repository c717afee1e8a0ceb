"""Read messages from a meter source: one of this package's own, or one that another package provides."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sottovoce.config.feed import OWN_SOURCES
from sottovoce.data.feed.meter_source import MeterSource
from sottovoce.errors import ConfigError, SottovoceError
from sottovoce.plugins import METER_SOURCE, Plugin, find, installed_plugins, load, plugin_errors
from sottovoce.suggestions import suggest_name

from sottovoce_home.meter_sources import Messages, SourceUnavailable, open_built_in
from sottovoce_home.meters.source import covers
from sottovoce_home.pauses import Backoff

_log = logging.getLogger("sottovoce.home.plugin_source")
_UNAVAILABLE_ERRORS = (OSError, EOFError)


class PluginSource:
    """A reader for a meter source, which restarts the source whenever it ends.

    Args:
        name: name of the source.
        settings: settings for the source.
        filters: topic filters of each meter, by its name.

    Raises:
        ConfigError: if there is no source with this name, or a built-in source has a wrong setting, needs an extra
            that is not installed, or has no messages for a meter.
        PluginError: if the source's package is broken.
    """

    def __init__(
        self, name: str, settings: Mapping[str, Any], filters: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> None:
        plugin = find(METER_SOURCE, name, OWN_SOURCES)
        self._name = name
        if plugin is not None:
            self._messages = _plugin_messages(plugin, settings)
        elif name in OWN_SOURCES:
            own = open_built_in(name, settings)
            self._messages = _own_messages(own.messages)
            _check_meters(name, own.topics, filters)
        else:
            known = sorted({*OWN_SOURCES, *installed_plugins(METER_SOURCE)})
            similar = suggest_name(name, known)
            raise ConfigError(
                f"feed.source: there is no meter source named {name}; "
                f"{'' if similar is None else f'did you mean {similar}? '}choose one of {', '.join(known)}"
            )

    async def serve(self, receive: Callable[[str, bytes], None]) -> None:
        """Pass every message to `receive` until cancelled, and retry while the source is unavailable.

        Raises:
            PluginError: if the source's package is broken.
        """
        pauses = Backoff()
        while True:
            connected = False
            try:
                async for topic, payload in self._messages():
                    if not connected:
                        connected = True
                        _log.info("ready source=%s", self._name)
                    receive(topic, payload)
                    pauses.reset()
                reason = "the source has ended"
            except SourceUnavailable as error:
                reason = str(error)
            except _UNAVAILABLE_ERRORS as error:
                reason = type(error).__name__  # the error message may contain a reading
            pause = pauses.next()
            _log.warning("waiting-for-source reason=%s next_attempt_s=%.0f", reason, pause)
            await asyncio.sleep(pause)


def _check_meters(source: str, topics: Sequence[str], filters: Mapping[str, Sequence[str]]) -> None:
    """Check that a source has messages for each meter.

    Raises:
        ConfigError: if it has none for one of them.
    """
    for meter, wanted in filters.items():
        for one in wanted:
            if not any(covers(one, topic) for topic in topics):
                raise ConfigError(
                    f"feed.meters: {meter} reads {one}, but the source {source} has messages only under "
                    f"{', '.join(topics)}; choose the format and the names that fit"
                )


def _plugin_messages(plugin: Plugin, settings: Mapping[str, Any]) -> Messages:
    """Return the messages of a plug-in; its defects are raised as errors that name the plug-in."""
    source: MeterSource = load(plugin, MeterSource)

    async def messages() -> AsyncIterator[tuple[str, bytes]]:
        with plugin_errors(plugin, passing=_UNAVAILABLE_ERRORS):
            async for message in source.messages(settings):
                match message:
                    case (str() as topic, bytes() as payload):
                        yield topic, payload
                    case _:
                        raise plugin.error("messages() must yield (topic, payload) pairs of type (str, bytes)")

    return messages


def _own_messages(opened: Messages) -> Messages:
    """Return the messages of a built-in source; whatever its library raises, the source is only unavailable."""

    async def messages() -> AsyncIterator[tuple[str, bytes]]:
        try:
            async for message in opened():
                yield message
        except (SottovoceError, *_UNAVAILABLE_ERRORS):
            raise
        except Exception as error:
            raise SourceUnavailable(f"{type(error).__name__} in the source's library") from error

    return messages
