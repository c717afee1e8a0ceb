"""Run the feed until SIGTERM or Ctrl-C, and reconnect to the broker when necessary."""

import asyncio
import contextlib
import logging
import math
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import closing
from dataclasses import replace
from typing import Any

from sottovoce.concurrency import cancel_and_wait
from sottovoce.config import AgentConfig
from sottovoce.config.feed import FeedSection
from sottovoce.errors import ConfigError, DataError, DiskReadOnly, ExitCode, NetworkError
from sottovoce.node.faults import STUCK_SECONDS, transient_fault_kind
from sottovoce.ops import RateLimitedLog
from sottovoce.storage.durable import is_read_only

from sottovoce_home.broker import BrokerRefused, BrokerSettings, Session, Will, open_session
from sottovoce_home.listener import Listener
from sottovoce_home.meters import Meter
from sottovoce_home.panel import Panel
from sottovoce_home.pauses import Backoff
from sottovoce_home.plugin_source import PluginSource
from sottovoce_home.sources import broker_settings, build_sources, topic_filters
from sottovoce_home.store import WindowStore

_log = logging.getLogger("sottovoce.home.process")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CHECK_INTERVAL = 30.0
_FAILURES_TO_EXPLAIN = 3
_SYSTEMD = "INVOCATION_ID"  # environment variable of every process that systemd starts
_READ_ONLY_SECONDS = 600.0
_SESSION_END_SECONDS, _SHUTDOWN_SECONDS = 1.0, 5.0  # a session takes at most two seconds to disconnect
_STABLE_SECONDS = 60.0  # minimum duration of a session that counts as successful


async def run(config: AgentConfig) -> ExitCode:
    """Listen to the meters and store windows until SIGTERM or Ctrl-C.

    Args:
        config: configuration with a `[feed]` section.

    Returns:
        DONE after SIGTERM, INTERRUPTED after Ctrl-C.

    Raises:
        ConfigError: if neither a meter nor Home Assistant is configured, or a configured file or source is missing.
        DataError: if a person has to mend the store; while the disk is full, the feed waits.
        DiskReadOnly: if the disk is read-only, and only a new process can write again.
        NetworkError: if the broker refuses this client and has never accepted it; if the broker is unavailable, the
            feed keeps trying to connect.
    """
    feed = config.feed
    if not feed.meters and not feed.home_assistant.enabled:
        raise ConfigError(
            "feed.meters: the feed has nothing to do, because no meter is listed and feed.home_assistant is "
            "disabled; add a meter"
        )
    stopping: asyncio.Future[ExitCode] = asyncio.get_running_loop().create_future()
    for number, code in ((signal.SIGTERM, ExitCode.DONE), (signal.SIGINT, ExitCode.INTERRUPTED)):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stopping, code)
    store = await _open_store(feed, stopping)
    if store is None:
        return await stopping
    with closing(store):
        listener = Listener([Meter(source, feed.window) for source in build_sources(feed)], store, feed.clock_wait)
        serving = [asyncio.create_task(one) for one in _services(config, store.identifier, listener)]
        try:
            either: list[asyncio.Future[Any]] = [*serving, stopping]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            for one in serving:
                if one.done():
                    await one
        finally:
            await cancel_and_wait(serving, _SHUTDOWN_SECONDS)
            listener.save()
        _log.info("stopped")
        return await stopping


async def _open_store(feed: FeedSection, stopping: asyncio.Future[ExitCode]) -> WindowStore | None:
    """Open the store, retrying while the disk is full or failing; return None if the process has to stop first.

    Raises:
        DataError: if a person has to mend the store.
        DiskReadOnly: if the disk is read-only, and only a new process can write again.
    """
    pauses, log = Backoff(), RateLimitedLog(_log)
    while True:
        try:
            return WindowStore(feed.file, feed.window, feed.keep_days)
        except DataError as error:
            if transient_fault_kind(error, has_worked=is_read_only(feed.file.parent)) is None:
                raise
            log.log(logging.WARNING, "disk", "waiting-for-disk %s", error)
            if _needs_new_process(feed):
                await asyncio.wait([stopping], timeout=STUCK_SECONDS)
                if not stopping.done():
                    raise _read_only_error(feed) from error
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(stopping), pauses.next())
            return None


def _needs_new_process(feed: FeedSection) -> bool:
    """Return whether the disk is read-only in systemd's private view of it, which a mended disk does not change."""
    return _SYSTEMD in os.environ and is_read_only(feed.file.parent)


def _read_only_error(feed: FeedSection) -> DiskReadOnly:
    return DiskReadOnly(f"{feed.file}: the disk is mounted read-only; fix the cause and remount it read-write")


async def _watch_disk(feed: FeedSection) -> None:
    """Wait until only a new process can write again; until then, finished windows stay in memory.

    Raises:
        DiskReadOnly: after ten minutes with a read-only disk.
    """
    since = math.inf
    while True:
        since = min(since, time.monotonic()) if _needs_new_process(feed) else math.inf
        if time.monotonic() - since >= _READ_ONLY_SECONDS:
            raise _read_only_error(feed)
        await asyncio.sleep(_CHECK_INTERVAL)


def _services(config: AgentConfig, identifier: str, listener: Listener) -> list[Coroutine[Any, Any, None]]:
    """Return the coroutines that listen to meters and show the device in Home Assistant; one connection may do both."""
    feed = config.feed
    panel = Panel(config, identifier) if feed.home_assistant.enabled else None
    plugin_source = None if feed.source is None else PluginSource(feed.source, feed.settings, topic_filters(feed))
    windows_stored = asyncio.Event()
    services: list[Coroutine[Any, Any, None]] = (
        [] if plugin_source is None else [_serve_plugin_source(plugin_source, listener, windows_stored.set)]
    )
    if plugin_source is None or panel is not None:
        settings = broker_settings(config, identifier)
        if settings.password is not None and settings.tls is None and settings.host not in _LOOPBACK:
            _log.warning("password-in-the-clear broker=%s use mqtts:// if the broker supports it", settings.host)
        connection = _BrokerConnection(settings, listener, panel, windows_stored, hears_meters=plugin_source is None)
        services.append(connection.serve())
    return [*services, _watch_disk(feed)]


async def _serve_plugin_source(source: PluginSource, listener: Listener, on_stored: Callable[[], None]) -> None:
    def receive(topic: str, payload: bytes) -> None:
        listener.receive(topic, payload, retained=False)
        if listener.save_if_due(idle=True):
            on_stored()

    watching = asyncio.create_task(_watch_and_save(listener, on_stored))
    try:
        await source.serve(receive)
    finally:
        await cancel_and_wait([watching], _SESSION_END_SECONDS)


async def _watch_and_save(listener: Listener, on_stored: Callable[[], None]) -> None:
    """Periodically log silent meters and store finished windows; call `on_stored` whenever windows have been stored."""
    while True:
        listener.prune()
        await asyncio.sleep(_CHECK_INTERVAL)
        listener.log_silent_meters()
        if listener.save_if_due(idle=True):
            on_stored()


def _stop(stopping: asyncio.Future[ExitCode], code: ExitCode) -> None:
    if not stopping.done():
        stopping.set_result(code)


class _BrokerConnection:
    """A connection to the home's broker that is re-established whenever it ends."""

    def __init__(
        self,
        settings: BrokerSettings,
        listener: Listener,
        panel: Panel | None,
        windows_stored: asyncio.Event,
        *,
        hears_meters: bool,
    ) -> None:
        self._settings = settings
        self._tries_older_version = False
        self._hears_meters = hears_meters
        self._listener = listener
        self._panel = panel
        self._windows_stored = windows_stored

    async def serve(self) -> None:
        """Serve one session after another until cancelled, and reconnect after network errors.

        Raises:
            BrokerRefused: if the broker refuses this client, and has never accepted it before.
            DataError: if a person has to mend the store.
        """
        pauses, failures, was_accepted = Backoff(), Counter[tuple[str, bool]](), False
        while True:
            began, is_open = time.monotonic(), False
            try:
                async with open_session(self._settings, self._filters, self._will, self._count_dropped) as connection:
                    was_accepted = is_open = True
                    _log.info("ready broker=%s:%d", self._settings.host, self._settings.port)
                    if self._tries_older_version:
                        self._tries_older_version = False
                        _log.warning('broker-version the broker speaks MQTT 3.1.1 only; set feed.version = "3.1.1"')
                    await self._serve_session(connection)
            except NetworkError as error:
                if isinstance(error, BrokerRefused) and not was_accepted:
                    raise
                if time.monotonic() - began > _STABLE_SECONDS:
                    pauses.reset()
                    failures.clear()
                self._explain_failure(failures, str(error), is_open=is_open)
                pause = pauses.next()
                _log.warning("waiting-for-broker reason=%s next_attempt_s=%.0f", error, pause)
                await asyncio.sleep(pause)
            self._listener.save()

    def _explain_failure(self, failures: Counter[tuple[str, bool]], reason: str, *, is_open: bool) -> None:
        """Log the likely causes of a failure when it occurs for the third time, and try MQTT 3.1.1 once."""
        settings = self._settings
        if self._tries_older_version:
            self._tries_older_version, self._settings = False, replace(settings, mqtt5=True)
            return
        failures[reason, is_open] += 1
        if failures[reason, is_open] != _FAILURES_TO_EXPLAIN:
            return
        if is_open:
            causes = (
                f"another client with the identifier {settings.identifier}: if this device's card or "
                "feed.store is a copy of another home's, delete the copied store"
            )
        elif settings.tls is None:
            causes = (
                f"a wrong address, or port {settings.port} expects TLS (use mqtts://), or MQTT 3.1.1 (feed.version)"
            )
        else:
            causes = f"a wrong address, or port {settings.port} expects no TLS (use mqtt://), or a wrong feed.ca"
        _log.warning("broker-unavailable failures=%d likely causes: %s", _FAILURES_TO_EXPLAIN, causes)
        if settings.mqtt5 and not is_open:
            self._tries_older_version, self._settings = True, replace(settings, mqtt5=False)

    @property
    def _filters(self) -> list[str]:
        own = self._listener.filters if self._hears_meters else []
        return own + ([] if self._panel is None else self._panel.filters)

    @property
    def _will(self) -> Will | None:
        return None if self._panel is None else self._panel.will

    def _count_dropped(self) -> None:
        self._listener.count_rejection("-", "dropped", "messages arrived faster than they could be processed")

    async def _serve_session(self, connection: Session) -> None:
        """Serve one session until it ends with an error or is cancelled."""
        looking = _watch_and_save(self._listener, self._windows_stored.set)
        tasks = [asyncio.create_task(self._listen(connection)), asyncio.create_task(looking)]
        if self._panel is not None:
            tasks.append(asyncio.create_task(self._panel.publish_states(connection, self._windows_stored)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
        finally:
            await cancel_and_wait(tasks, _SESSION_END_SECONDS)
            if self._panel is not None:
                await self._panel.announce_offline(connection)

    async def _listen(self, connection: Session) -> None:
        async for topic, payload, retained in connection.messages():
            if self._panel is not None and topic in self._panel.filters:
                await self._panel.handle_message(topic, payload, retained=retained)
                continue
            self._listener.receive(topic, payload, retained=retained)
            if self._listener.save_if_due(idle=not connection.unread_count):
                self._windows_stored.set()
