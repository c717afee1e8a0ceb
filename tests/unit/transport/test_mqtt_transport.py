"""Transport and its input from an untrusted broker: the test carries every message."""

import asyncio
import time
from pathlib import Path

import pytest
from sottovoce.errors import DataError, IdentityError, MessageRefused
from sottovoce.net.transports import DeliveryFailed
from sottovoce.net.transports.mqtt import known_devices
from sottovoce.net.transports.mqtt.secrecy import SessionKey
from sottovoce.net.wire.v1.mqtt_pb2 import Content, Frame
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.fleets import new_fleet
from tests.support.introductions import make_introduction, renew_certificate
from tests.support.mailbox import NewDevice, Post, alter_frame, exchange, inbox, send_and_wait
from tests.support.waiting import let_others_run


async def restart(post: Post) -> Post:
    """Return the same device after its next start."""
    return await Post(post.identity, boots=2).start()


async def test_a_message_is_handed_over_once_however_often_and_wherever_it_arrives(device: NewDevice) -> None:
    a, b, c = [await device(name) for name in "abc"]
    (topic, request), _ = await exchange(a, b, b"there")
    await exchange(c, b, b"hello")
    assert b.received == [(a.id, b"there"), (c.id, b"hello")]
    b.take_refusals()
    for _ in range(3):
        b.receive_frame(topic, request)
    assert b.take_refusals() == {"replayed": 3}
    b.receive_frame(inbox(b, c), request)  # in another device's name
    c.receive_frame(inbox(c, a), request)  # to another device
    b.receive_frame(inbox(b, b), request)
    assert b.take_refusals() == {"sender": 2}
    assert c.take_refusals() == {"stale": 1}
    await let_others_run()
    assert len(b.received) == 2


async def test_nothing_is_handed_over_again_after_the_recipient_restarts(device: NewDevice) -> None:
    a, before = [await device(name) for name in "ab"]
    delivery, (topic, request) = await send_and_wait(a, before, b"there")
    b = await restart(before)
    b.receive_frame(topic, request)  # stored by the broker while it was away
    assert b.take_refusals() == {"stale": 1}
    a.introduce(b)
    with pytest.raises(DeliveryFailed, match="has restarted") as exc_info:
        await delivery
    assert exc_info.value.cause == "unreachable"
    await exchange(a, b, b"again")
    assert b.received == [(a.id, b"again")]


async def test_nothing_is_handed_over_again_after_the_sender_restarts(device: NewDevice) -> None:
    before, b = [await device(name) for name in "ab"]
    frames = [await exchange(before, b, b"there"), await exchange(before, b, b"again")]
    word = before.transport._presence.presence_announcement()
    a = await restart(before)
    await exchange(a, b, b"anew")
    b.take_refusals()
    for (topic, request), _ in frames:
        b.receive_frame(topic, request)
        b.receive_frame(topic, alter_frame(request, introduction=word))
    b.receive_frame(f"sottovoce/v1/{a.identity.fleet}/peer/{a.id}", word)
    assert b.take_refusals() == {"replayed": 4, "stranger": 1}  # the second message did not introduce its sender
    assert [message for _, message in b.received] == [b"there", b"again", b"anew"]
    await exchange(a, b, b"still")


async def test_no_part_of_a_frame_can_be_replaced(device: NewDevice) -> None:
    a, b, c = [await device(name) for name in "abc"]
    await exchange(c, b, b"hello")
    delivery, (topic, request) = await send_and_wait(a, b, b"there")
    (_, other), _ = await exchange(c, b, b"other")
    b.take_refusals()
    theirs = Frame.FromString(other)
    for fields in (
        {"sealed": theirs.sealed},
        {"counter": 7},
        {"sender_key": theirs.sender_key},
        {"sender_key": SessionKey().public},
        {"recipient_key": SessionKey().public},
        {"introduction": c.transport._presence.presence_announcement()},
        {"introduction": make_introduction(c.identity, SessionKey().public, 9, 9)},
        {"introduction": b"x"},
    ):
        b.receive_frame(topic, alter_frame(request, **fields))
    assert b.take_refusals() == {"forged": 2, "stranger": 2, "stale": 1, "sender": 2, "malformed": 1}
    b.receive_frame(topic, request + b"\x7a\x01x")
    b.receive_frame(topic, b"")
    assert b.take_refusals() == {"malformed": 1, "stale": 1}
    b.receive_frame(
        topic, alter_frame(request, introduction=b"")
    )  # which b does not need: the message is complete without it
    b.receive_frame(topic, request)
    assert b.take_refusals() == {"replayed": 1}
    (answer,) = await b.take_frames(1)
    a.receive_frame(*answer)
    assert await delivery == b"answer"
    assert [message for _, message in b.received] == [b"hello", b"other", b"there"]


async def test_an_answer_counts_only_for_its_request_and_recipient(device: NewDevice) -> None:
    a, b, c = [await device(name) for name in "abc"]
    _, late = await exchange(a, b, b"before")
    delivery, request = await send_and_wait(a, b, b"there")
    await exchange(c, a, b"hello")
    channel = c.transport._known_devices.add(a.id, a.transport._presence.presence_announcement()).channel
    counter, sealed = channel.seal(Content(kind=Content.KIND_ANSWER, exchange=2, body=b"lie").SerializeToString())
    keys = {"sender_key": c.transport._presence.key.public, "recipient_key": a.transport._presence.key.public}
    a.receive_frame(inbox(a, c), Frame(counter=counter, sealed=sealed, **keys).SerializeToString(deterministic=True))
    a.receive_frame(*late)
    a.receive_frame(inbox(a, c), late[1])
    assert a.take_refusals() == {"replayed": 1, "stranger": 1}
    await let_others_run()
    assert not delivery.done()
    b.receive_frame(*request)
    (answer,) = await b.take_frames(1)
    a.receive_frame(*answer)
    assert await delivery == b"answer"


@pytest.mark.parametrize(
    "answer, cause, words",
    [
        (MessageRefused("shape", "it has 3 numbers"), "refused", r"shape: .*\b3\b"),
        (IdentityError("it is revoked"), "refused", r"certificate: .*revoked"),
        (MessageRefused("x", "a\n" * 99_999), "refused", r"refused the message: x: (a ){200,250}a?$"),
        (DataError("row 3 holds 17.5"), "other", r"receiving.*log"),
    ],
)
async def test_a_recipient_reports_only_a_message_s_outcome(
    device: NewDevice, answer: Exception, cause: str, words: str
) -> None:
    a, b = [await device(name) for name in "ab"]
    b.answer = answer
    with pytest.raises(DeliveryFailed, match=words) as exc_info:
        await exchange(a, b, b"there")
    assert exc_info.value.cause == cause
    assert "17.5" not in str(exc_info.value)


async def test_an_oversized_message_is_not_handed_over(device: NewDevice) -> None:
    a, b = [await device(name) for name in "ab"]
    await exchange(a, b, bytes(a.transport.largest))
    await exchange(a, b, bytes(a.transport.largest + 1))
    assert [message for _, message in b.received] == [bytes(a.transport.largest), None]
    b.receive_frame(inbox(b, a), bytes(a.transport.largest + 2**14))
    assert b.take_refusals() == {"size": 1}


async def test_a_departed_device_is_not_waited_for_until_it_sends_a_message(device: NewDevice) -> None:
    a, b = [await device(name) for name in "ab"]
    await exchange(a, b, b"there")
    presence = f"sottovoce/v1/{b.identity.fleet}/peer/{b.id}"
    farewell = b.transport._presence.departure_announcement()  # the broker has it since the connection began
    a.receive_frame(presence, farewell)
    with pytest.raises(DeliveryFailed, match=r"left.*broker") as exc_info:
        await a.transport.deliver(b.peer, b"there", 60)
    assert exc_info.value.cause == "unreachable"
    await exchange(b, a, b"but I am here")
    await exchange(a, b, b"so you are")
    a.receive_frame(presence, farewell)
    await exchange(a, b, b"still")


async def test_a_device_believed_gone_is_tried_again_later(device: NewDevice) -> None:
    """Otherwise, a broker that publishes two devices' farewells at once would separate them permanently."""
    a, b = [await device(name) for name in "ab"]
    await exchange(a, b, b"there")
    a.receive_frame(f"sottovoce/v1/{b.identity.fleet}/peer/{b.id}", b.transport._presence.departure_announcement())
    known = a.transport._known_devices.find(b.id)
    assert known is not None
    assert 200 < known.gone_until - time.monotonic() < 400
    known.gone_until = time.monotonic()  # this much later
    with pytest.raises(DeliveryFailed, match="no answer") as exc_info:
        await a.transport.deliver(b.peer, b"lost", 0.01)
    assert exc_info.value.cause == "timeout"
    with pytest.raises(DeliveryFailed, match=r"left.*broker"):
        await a.transport.deliver(b.peer, b"not sent", 60)
    assert len(await a.take_frames(1)) == 1
    known.gone_until = time.monotonic()
    await exchange(a, b, b"heard")
    await exchange(a, b, b"again")


async def test_an_absent_device_is_unreachable_and_a_silent_one_times_out(device: NewDevice) -> None:
    a, b = [await device(name) for name in "ab"]
    with pytest.raises(DeliveryFailed, match=r"present.*broker") as exc_info:
        await a.transport.deliver(b.peer, b"there", 0.01)
    assert exc_info.value.cause == "unreachable"
    a.introduce(b)
    await exchange(a, b, b"there")
    with pytest.raises(DeliveryFailed, match=r"0\.01 s") as exc_info:
        await a.transport.deliver(b.peer, b"there", 0.01)
    assert exc_info.value.cause == "timeout"
    ((_, frame),) = await a.take_frames(1)
    assert not Frame.FromString(frame).introduction
    _, (_, frame) = await send_and_wait(a, b, b"again")
    assert Frame.FromString(frame).introduction  # it may have forgotten this device


async def test_a_lost_connection_ends_every_wait_and_leaves_nothing_behind(
    device: NewDevice, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = [await device(name) for name in "ab"]
    deliveries = [(await send_and_wait(a, b, b"%d" % i))[0] for i in range(3)]
    a.box.on_loss()
    for delivery in deliveries:
        with pytest.raises(DeliveryFailed, match=r"connection.*lost") as exc_info:
            await delivery
        assert exc_info.value.cause == "unreachable"
    a.box.failure = OSError("it broke")
    with pytest.raises(DeliveryFailed, match=r"accept.*broke"):
        await a.transport.deliver(b.peer, b"there", 10)
    a.box.is_up = False
    with pytest.raises(DeliveryFailed, match=r"connection.*broker"):
        await a.transport.deliver(b.peer, b"there", 10)
    assert a.transport._exchanges._waiting == {}
    assert caplog.text == ""


async def test_a_cancelled_wait_is_forgotten_and_its_answer_ignored(device: NewDevice) -> None:
    a, b = [await device(name) for name in "ab"]
    delivery, request = await send_and_wait(a, b, b"there")
    delivery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivery
    assert a.transport._exchanges._waiting == {}
    b.receive_frame(*request)
    (answer,) = await b.take_frames(1)
    a.receive_frame(*answer)
    await exchange(a, b, b"again")


async def test_present_devices_have_a_valid_introduction(device: NewDevice, fleet: Fleet, tmp_path: Path) -> None:
    a, b, c, d = [await device(name) for name in "abcd"]
    looking = asyncio.create_task(a.transport.discover(0.2))
    await let_others_run()
    above = f"sottovoce/v1/{fleet.name}/peer"
    assert f"{above}/+" in a.box.topics
    a.introduce(b)
    a.receive_frame(f"{above}/{c.id}", c.transport._presence.departure_announcement())
    a.receive_frame(f"{above}/{d.id}", b.transport._presence.presence_announcement())
    a.receive_frame(f"{above}/{d.id}", b"")
    a.receive_frame(f"{above}/{d.id}", b"nonsense")
    stranger = enrol(new_fleet(tmp_path / "elsewhere", fleet.name), tmp_path / "stranger")
    a.receive_frame(f"{above}/{stranger.node_id}", make_introduction(stranger, SessionKey().public))
    assert await looking == (b.id,)
    assert f"{above}/+" not in a.box.topics
    assert a.take_refusals() == {"sender": 1, "malformed": 1, "certificate": 1}


async def test_a_renewed_certificate_is_sent_to_all_devices(device: NewDevice, fleet: Fleet, tmp_path: Path) -> None:
    a, b = [await device(name) for name in "ab"]
    await exchange(a, b, b"there")
    delivery, request = await send_and_wait(a, b, b"on its way")
    a.trust.renew(renew_certificate(fleet, tmp_path / "a"))
    b.receive_frame(*request)
    (answer,) = await b.take_frames(1)
    a.receive_frame(*answer)
    assert await delivery == b"answer"
    a.transport._known_devices.invalidate_all()
    _, (_, frame) = await send_and_wait(a, b, b"after")
    reported = b.transport._known_devices.add(a.id, Frame.FromString(frame).introduction)
    assert reported.introduced.subject.not_after == a.trust.identity.not_after


async def test_a_device_that_is_no_longer_trusted_is_refused(device: NewDevice, tmp_path: Path) -> None:
    a, b = [await device(name) for name in "ab"]
    await exchange(a, b, b"there")
    _, request = await send_and_wait(a, b, b"again")
    b.trust._identity = enrol(new_fleet(tmp_path / "other", b.identity.fleet), tmp_path / "other-device")
    b.trust.revoke(())
    b.receive_frame(*request)
    assert b.take_refusals() == {"certificate": 1}
    with pytest.raises(DeliveryFailed, match=r"present.*broker"):
        await b.transport.deliver(a.peer, b"there", 0.01)


async def test_a_revoked_device_is_passed_on_so_the_agent_can_explain(device: NewDevice) -> None:
    a, b = [await device(name) for name in "ab"]
    await exchange(a, b, b"there")
    b.trust.revoke([a.id])
    b.answer = MessageRefused("revoked", f"device {a.id} is revoked by its fleet")
    with pytest.raises(DeliveryFailed, match="revoked"):
        await exchange(a, b, b"again")


async def test_a_restarting_device_ends_its_waits_and_continues(
    device: NewDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_devices, "_MAX_KNOWN", 2)
    a, b, c, d = [await device(name) for name in "abcd"]
    await exchange(a, b, b"there")
    await exchange(a, c, b"there")
    old, _ = await exchange(b, a, b"old")
    delivery, _ = await send_and_wait(a, b, b"on its way")
    await exchange(a, d, b"one too many")
    with pytest.raises(DeliveryFailed, match="has restarted"):
        await delivery
    a.take_refusals()
    a.receive_frame(*old)
    assert a.take_refusals() == {"stale": 1}
    b.introduce(a)
    await exchange(b, a, b"anew")
    assert a.received == [(b.id, b"old"), (b.id, b"anew")]


async def test_it_stops_while_messages_wait_on_both_sides(device: NewDevice) -> None:
    a, b = [await device(name) for name in "ab"]
    delivery, request = await send_and_wait(a, b, b"there")
    b.open.clear()
    b.receive_frame(*request)
    async with asyncio.timeout(20):
        await b.transport.stop(0.05)
        await a.transport.stop(0.05)
        with pytest.raises(DeliveryFailed):
            await delivery
    assert b.box.sent[-1] == (
        f"sottovoce/v1/{b.identity.fleet}/peer/{b.id}",
        b.transport._presence.departure_announcement(),
        True,
    )
    await let_others_run()
    assert not b.transport._answering
    await b.transport.stop(0.05)
