"""Meter source of a plug-in: it is restarted after an outage, and its errors name the plug-in."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from sottovoce.data.feed.meter_source import MeterSource
from sottovoce.errors import ConfigError, PluginError
from sottovoce.plugins import METER_SOURCE, Plugin
from sottovoce_home import plugin_source
from sottovoce_home.plugin_source import PluginSource

_PLUGIN = Plugin(METER_SOURCE, "serial", "elsewhere:SOURCE", "elsewhere 1")


class _EnoughError(KeyboardInterrupt):
    """Stops the reader, which would otherwise run forever."""


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Mapping[str, Any]], Any]], PluginSource]:
    async def at_once(seconds: float) -> None:
        del seconds

    monkeypatch.setattr(asyncio, "sleep", at_once)
    monkeypatch.setattr(plugin_source, "find", lambda kind, name, own: _PLUGIN)

    def made(messages: Callable[[Mapping[str, Any]], Any]) -> PluginSource:
        monkeypatch.setattr(plugin_source, "load", lambda plugin, type_: MeterSource(messages))
        return PluginSource("serial", {"port": "/dev/ttyUSB0"})

    return made


async def test_messages_are_passed_on_and_an_ended_source_is_restarted(
    source: Callable[..., PluginSource], caplog: pytest.LogCaptureFixture
) -> None:
    calls, received = [], []

    async def messages(settings: Mapping[str, Any]) -> AsyncIterator[tuple[str, bytes]]:
        calls.append(settings)
        if len(calls) == 2:
            raise OSError("reading 1234.5 lost")
        if len(calls) == 4:
            raise _EnoughError
        yield "meter/power", str(len(calls)).encode()

    with pytest.raises(_EnoughError):
        await source(messages).serve(lambda topic, payload: received.append((topic, payload)))
    assert calls == [{"port": "/dev/ttyUSB0"}] * 4
    assert received == [("meter/power", b"1"), ("meter/power", b"3")]
    assert "reason=the source has ended" in caplog.text
    assert "reason=OSError" in caplog.text
    assert "1234.5" not in caplog.text


@pytest.mark.parametrize("message", [None, b"abc", ("topic", "text"), (b"topic", b"payload"), ("topic", b"payload", 1)])
async def test_malformed_message_is_a_plugin_error(source: Callable[..., PluginSource], message: object) -> None:
    async def messages(settings: Mapping[str, Any]) -> AsyncIterator[object]:
        yield message

    with pytest.raises(PluginError, match=r"serial.*\(topic, payload\)"):
        await source(messages).serve(lambda topic, payload: None)


async def test_result_that_is_not_an_iterator_is_a_plugin_error(source: Callable[..., PluginSource]) -> None:
    with pytest.raises(PluginError, match=r"serial.*TypeError"):
        await source(lambda settings: [("topic", b"payload")]).serve(lambda topic, payload: None)


async def test_source_error_is_a_plugin_error_without_its_message(
    source: Callable[..., PluginSource],
) -> None:
    async def messages(settings: Mapping[str, Any]) -> AsyncIterator[tuple[str, bytes]]:
        yield "topic", b"payload"
        raise ValueError("reading 1234.5 is odd")

    with pytest.raises(PluginError, match="ValueError") as exc_info:
        await source(messages).serve(lambda topic, payload: None)
    assert "1234.5" not in str(exc_info.value)


def test_unknown_source_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"feed\.source.*serial"):
        PluginSource("serial", {})
