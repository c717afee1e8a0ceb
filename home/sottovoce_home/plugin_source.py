"""Read messages from a meter source that another package provides."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from sottovoce.data.feed.meter_source import MeterSource
from sottovoce.errors import ConfigError
from sottovoce.plugins import METER_SOURCE, Plugin, find, load, plugin_errors

from sottovoce_home.pauses import Backoff

_log = logging.getLogger("sottovoce.home.plugin_source")
_UNAVAILABLE_ERRORS = (OSError, EOFError)


class PluginSource:
    """A reader for a plug-in's meter source, which restarts the source whenever it ends.

    Args:
        name: name of the source.
        settings: settings for the source.

    Raises:
        ConfigError: if no installed package provides a source with this name.
        PluginError: if the source's package is broken.
    """

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        plugin = find(METER_SOURCE, name, ())
        if plugin is None:
            raise ConfigError(
                f"feed.source: no installed package provides a meter source named {name}; run `sottovoce plugins` to "
                "list those available"
            )
        self._plugin: Plugin = plugin
        self._source: MeterSource = load(plugin, MeterSource)
        self._settings = settings

    async def serve(self, receive: Callable[[str, bytes], None]) -> None:
        """Pass every message to `receive` until cancelled, and retry while the source is unavailable.

        Raises:
            PluginError: if the source's package is broken.
        """
        pauses = Backoff()
        while True:
            connected = False
            try:
                async for message in self._messages():
                    if not connected:
                        connected = True
                        _log.info("ready source=%s", self._plugin.name)
                    match message:
                        case (str() as topic, bytes() as payload):
                            receive(topic, payload)
                        case _:
                            raise self._plugin.error(
                                "messages() must yield (topic, payload) pairs of type (str, bytes)"
                            )
                    pauses.reset()
                reason = "the source has ended"
            except _UNAVAILABLE_ERRORS as error:
                reason = type(error).__name__  # the error message may contain a reading
            pause = pauses.next()
            _log.warning("waiting-for-source reason=%s next_attempt_s=%.0f", reason, pause)
            await asyncio.sleep(pause)

    async def _messages(self) -> AsyncIterator[object]:
        with plugin_errors(self._plugin, passing=_UNAVAILABLE_ERRORS):
            async for message in self._source.messages(self._settings):
                yield message
