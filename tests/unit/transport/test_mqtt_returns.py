"""MQTT reconnections: detected at once, and lost messages are sent again soon."""

import asyncio

import pytest
from sottovoce.net.transports import DeliveryFailed
from sottovoce.net.transports.mqtt import transport

from tests.support.mailbox import NewDevice, Post, exchange, send_and_wait
from tests.support.waiting import TIMEOUT


def collect_returns(post: Post) -> list[str | None]:
    """Collect the devices that a device reports from now on."""
    results: list[str | None] = []
    post.transport._on_peer_reachable = results.append
    return results


def reconnect(post: Post) -> None:
    """Publish a newer introduction for the device."""
    post.box.farewell()


async def test_a_reconnected_peer_is_reported_once(device: NewDevice) -> None:
    a, b = [await device(name) for name in "ab"]
    reported = collect_returns(a)
    await exchange(a, b, b"hello")
    assert reported == [b.id]
    a.introduce(b)
    assert reported == [b.id], "the broker's repetitions are not news"
    reconnect(b)
    a.introduce(b)
    assert reported == [b.id] * 2
    topic = f"sottovoce/v1/{b.identity.fleet}/peer/{b.id}"
    a.receive_frame(topic, b.transport._presence.departure_announcement())
    assert reported == [b.id] * 2, "a farewell is not a return"


async def test_its_own_reconnection_is_reported(device: NewDevice) -> None:
    a = await device("a")
    reported = collect_returns(a)
    await a.box.on_connect()
    assert reported == [None]


async def test_requests_before_a_peer_s_reconnection_are_lost_soon_and_not_its_fault(
    device: NewDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_LOST_SECONDS", 0.01)
    a, b = [await device(name) for name in "ab"]
    delivery, _ = await send_and_wait(a, b, b"into the void")
    reconnect(b)
    a.introduce(b)
    with pytest.raises(DeliveryFailed, match="reconnected") as exc_info:
        await asyncio.wait_for(delivery, TIMEOUT)
    assert (exc_info.value.cause, exc_info.value.left) == ("unreachable", False)


async def test_requests_after_the_reconnection_are_not_lost(device: NewDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_LOST_SECONDS", 0.01)
    a, b = [await device(name) for name in "ab"]
    await exchange(a, b, b"hello")
    reconnect(b)
    a.introduce(b)
    delivery, request = await send_and_wait(a, b, b"later")
    await asyncio.sleep(0.05)
    b.receive_frame(*request)
    (answer,) = await b.take_frames(1)
    a.receive_frame(*answer)
    assert await delivery == b"answer"


async def test_requests_lost_with_the_own_connection_are_not_the_peer_s_fault(device: NewDevice) -> None:
    a, b = [await device(name) for name in "ab"]
    delivery, _ = await send_and_wait(a, b, b"hello")
    a.box.on_loss()
    with pytest.raises(DeliveryFailed, match=r"connection.*lost") as exc_info:
        await delivery
    assert not exc_info.value.left
