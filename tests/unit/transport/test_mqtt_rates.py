"""MQTT rates: a peer's excessive requests and forged messages are bounded, and cost one log line a minute."""

import asyncio
import logging

import pytest
from sottovoce.net.transports import DeliveryFailed
from sottovoce.net.transports.mqtt import transport
from sottovoce.net.transports.mqtt.secrecy import SessionKey

from tests.support.introductions import make_introduction
from tests.support.mailbox import NewDevice, alter_frame, exchange, inbox, send_and_wait
from tests.support.waiting import let_others_run


async def test_an_excessive_requester_is_refused_or_ignored_and_blocks_no_other(device: NewDevice) -> None:
    a, b, c = [await device(name) for name in "abc"]
    await exchange(a, b, b"hello")
    await exchange(c, b, b"hello")
    b.open.clear()
    flood = [(await send_and_wait(a, b, b"flood"))[1] for _ in range(100)]
    for request in flood:
        b.receive_frame(*request)
    assert len(b.transport._answering) == 64
    assert len(await b.take_frames(60)) == 60  # busy
    assert b.received.count((a.id, b"flood")) == 4
    polite, request = await send_and_wait(c, b, b"polite")
    b.receive_frame(*request)
    await let_others_run()
    assert (c.id, b"polite") in b.received
    b.open.set()
    for frame in await b.take_frames(5):
        if frame[0] == inbox(c, b):
            c.receive_frame(*frame)
    assert await polite == b"answer"
    assert not b.transport._calls  # only waiting senders are remembered


async def test_the_number_of_subscriptions_is_bounded(device: NewDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_MAX_FOLLOWED", 3)
    a, *others = [await device(name) for name in "abcdef"]
    own = set(a.box.topics)
    for other in (*others, others[2]):
        with pytest.raises(DeliveryFailed):
            await a.transport.deliver(other.peer, b"", 0.001)
    assert len(a.box.topics - own) == 3
    assert f"sottovoce/v1/{a.identity.fleet}/peer/{others[2].id}" in a.box.topics


async def test_the_number_of_checked_introductions_is_bounded(
    device: NewDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_MAX_PRESENT", 2)
    a, *others = [await device(name) for name in "abcde"]
    looking = asyncio.create_task(a.transport.discover(0.1))
    await let_others_run()
    for other in others:
        a.introduce(other)
    assert len(await looking) == 2
    assert a.transport.listener().handshakes == 2
    for other in others[2:]:
        a.introduce(other)  # no one requested them
    assert a.transport.listener().handshakes == 2


async def test_claims_in_its_own_name_are_answered_rarely_and_logged_once(
    device: NewDevice, caplog: pytest.LogCaptureFixture
) -> None:
    a = await device("a")
    own = f"sottovoce/v1/{a.identity.fleet}/peer/{a.id}"
    tombstone = a.transport._presence.departure_announcement()
    copy = make_introduction(a.identity, SessionKey().public, 5, 5)
    for _ in range(200):
        a.receive_frame(own, tombstone)
        a.receive_frame(own, copy)
        await let_others_run()
    announced = [payload for topic, payload, retain in a.box.sent if (topic, retain) == (own, True)]
    assert announced == [a.transport._presence.presence_announcement()]
    assert a.box.duplicates == 200
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "copy" in line.getMessage()


async def test_a_flood_is_refused_with_one_line_per_cause_and_not_remembered(
    device: NewDevice, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = [await device(name) for name in "ab"]
    (topic, request), _ = await exchange(a, b, b"there")
    stored = len(b.transport._known_devices._known), len(b.transport._sparse_log._logged_at)
    for number in range(2000):
        b.receive_frame(topic, b"garbage %d" % number)
        b.receive_frame(topic, alter_frame(request, introduction=b"", counter=10 + number))
        b.receive_frame(f"sottovoce/v1/{b.identity.fleet}/in/{b.id}/{number:032}".replace("0", "a"), request)
        b.receive_frame(topic + "/x" * number, request)
    assert sum(b.take_refusals().values()) > 4000
    assert len(caplog.records) == len({record.args[0] for record in caplog.records if isinstance(record.args, tuple)})
    assert len(b.transport._known_devices._known) == stored[0]
    assert len(b.transport._sparse_log._logged_at) <= 12
    await exchange(a, b, b"still here")
