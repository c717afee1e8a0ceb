"""Connection to the home's broker: equal failures are explained once, and an old broker is found."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sottovoce.errors import NetworkError
from sottovoce_home.broker import BrokerSettings
from sottovoce_home.process import _BrokerConnection

_ENOUGH = 8


class Silence:
    """A listener without meters."""

    filters: list[str] = []  # noqa: RUF012

    def save(self) -> bool:
        return False


def connection(*, tls: Any = None) -> _BrokerConnection:
    settings = BrokerSettings("broker", 1883, tls, None, None, True, "sottovoce-feed-a1b2")
    return _BrokerConnection(settings, Silence(), None, asyncio.Event(), hears_meters=True)  # type: ignore[arg-type]


async def serve(
    monkeypatch: pytest.MonkeyPatch,
    connection: _BrokerConnection,
    speaks: tuple[bool, ...],
    *,
    ends_at_once: bool = False,
) -> list[bool]:
    """Serve with a broker that speaks these versions, and return the versions that were tried (True: MQTT 5)."""
    tried: list[bool] = []

    @asynccontextmanager
    async def open_session(settings: BrokerSettings, *_: object) -> AsyncIterator[None]:
        tried.append(settings.mqtt5)
        if len(tried) == _ENOUGH:
            raise asyncio.CancelledError
        if settings.mqtt5 not in speaks:
            raise NetworkError("cannot reach the broker (timed out)")
        yield

    async def serve_session(_: object) -> None:
        if ends_at_once:
            raise NetworkError("the session was taken over")
        raise asyncio.CancelledError

    monkeypatch.setattr("sottovoce_home.process.open_session", open_session)
    monkeypatch.setattr("sottovoce_home.process.Backoff.next", lambda _: 0.0)
    monkeypatch.setattr(connection, "_serve_session", serve_session)
    with pytest.raises(asyncio.CancelledError):
        await connection.serve()
    return tried


async def test_a_broker_of_the_older_version_is_found_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert await serve(monkeypatch, connection(), speaks=(False,)) == [True, True, True, False]
    assert 'feed.version = "3.1.1"' in caplog.text


@pytest.mark.parametrize("tls, scheme", [(None, "mqtts://"), (object(), "mqtt://")])
async def test_equal_failures_are_explained_once_and_the_older_version_is_tried_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tls: Any, scheme: str
) -> None:
    tried = await serve(monkeypatch, connection(tls=tls), speaks=())
    assert tried == [True, True, True, False, True, True, True, True]
    assert caplog.text.count("likely causes") == 1
    assert scheme in caplog.text


async def test_two_homes_with_one_identifier_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await serve(monkeypatch, connection(), speaks=(True, False), ends_at_once=True)
    (line,) = [line for line in caplog.messages if "likely causes" in line]
    assert "identifier sottovoce-feed-a1b2" in line
    assert "delete the copied store" in line
