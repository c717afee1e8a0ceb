"""MQTT reconnections: detected at once, and lost messages are sent again soon."""

import asyncio

import pytest
from sottovoce.transport import DeliveryFailed
from sottovoce.transport.mqtt import transport

from tests.support.mailbox import NewDevice, Post, asked, exchange
from tests.support.waiting import PATIENCE


def heard(post: Post) -> list[str | None]:
    """Whom a device hears of from now on."""
    found: list[str | None] = []
    post.transport._returned = found.append
    return found


def connects_again(post: Post) -> None:
    """Its introduction is a newer one."""
    post.box.farewell()


async def test_a_peer_that_connects_again_is_told_of_once(device: NewDevice) -> None:
    a, b = [await device(name) for name in "ab"]
    told = heard(a)
    await exchange(a, b, b"hello")
    assert told == [b.id]
    a.hears_of(b)
    assert told == [b.id], "what the broker repeats is no news"
    connects_again(b)
    a.hears_of(b)
    assert told == [b.id] * 2
    topic = f"sottovoce/v1/{b.identity.fleet}/peer/{b.id}"
    a.hears(topic, b.transport._presence.departure_announcement())
    assert told == [b.id] * 2, "a farewell is no return"


async def test_its_own_connection_is_told_of(device: NewDevice) -> None:
    a = await device("a")
    told = heard(a)
    await a.box.connected()
    assert told == [None]


async def test_what_a_peer_was_asked_before_it_connected_again_is_lost_soon_and_not_its_fault(
    device: NewDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_LOST_SECONDS", 0.01)
    a, b = [await device(name) for name in "ab"]
    delivery, _ = await asked(a, b, b"into the void")
    connects_again(b)
    a.hears_of(b)
    with pytest.raises(DeliveryFailed, match="the peer has reconnected") as failed:
        await asyncio.wait_for(delivery, PATIENCE)
    assert (failed.value.cause, failed.value.left) == ("unreachable", False)


async def test_what_it_is_asked_afterwards_is_not(device: NewDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_LOST_SECONDS", 0.01)
    a, b = [await device(name) for name in "ab"]
    await exchange(a, b, b"hello")
    connects_again(b)
    a.hears_of(b)
    delivery, request = await asked(a, b, b"later")
    await asyncio.sleep(0.05)
    b.hears(*request)
    (answer,) = await b.frames(1)
    a.hears(*answer)
    assert await delivery == b"answer"


async def test_what_is_lost_with_the_own_connection_is_not_the_peers_fault(device: NewDevice) -> None:
    a, b = [await device(name) for name in "ab"]
    delivery, _ = await asked(a, b, b"hello")
    a.box.lost()
    with pytest.raises(DeliveryFailed, match="connection to the broker was lost") as failed:
        await delivery
    assert not failed.value.left
