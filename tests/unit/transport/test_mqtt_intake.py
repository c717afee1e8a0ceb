"""A sender that floods a device over a broker: dropped unread, left alone for a while, then heard again."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.net.quota import Quota
from sottovoce.net.transports.mqtt import intake

from tests.support.mailbox import NewDevice, Post, exchange, inbox, send_and_wait
from tests.support.waiting import eventually, let_others_run

GARBAGE = b"\xff" * 200


def limit(device: Post) -> None:
    """Give a device the quotas of a real one."""
    quota = Quota(10.0)
    device.transport._charge_frame, device.transport._note_refused_frame = quota.charge_frame, quota.note_refused_frame


async def test_a_flooder_is_shut_out_alone_and_heard_again(
    device: NewDevice, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(intake, "_FIRST_SECONDS", 0.1)
    here, honest, flooder = [await device(name) for name in ("here", "honest", "flooder")]
    for other in (honest, flooder):
        await exchange(other, here, b"hello")
    limit(here)
    every = inbox(here, flooder).rpartition("/")[0] + "/+"
    assert every in here.box.topics
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            here.receive_frame(inbox(here, flooder), GARBAGE)
    assert here.transport.listener().flooding == (flooder.id,)
    refused = here.transport.refused.total()
    here.receive_frame(inbox(here, flooder), GARBAGE)
    assert here.transport.refused.total() == refused, "dropped unread"
    await eventually(lambda: every not in here.box.topics)
    assert inbox(here, honest) in here.box.topics
    assert inbox(here, flooder) not in here.box.topics
    assert [record.getMessage() for record in caplog.records if flooder.id in record.getMessage()] == [
        message for message in caplog.messages if message.startswith("sender-shut-out")
    ]
    delivery, request = await send_and_wait(honest, here, b"still here")
    here.receive_frame(*request)
    (answer,) = await here.take_frames(1)
    honest.receive_frame(*answer)
    assert await delivery == b"answer"
    await eventually(lambda: every in here.box.topics)
    await eventually(lambda: inbox(here, honest) not in here.box.topics)
    assert here.transport.listener().flooding == ()


async def test_each_time_it_takes_longer(device: NewDevice) -> None:
    here, flooder = [await device(name) for name in ("here", "flooder")]
    inside = here.transport._started_intake
    now = asyncio.get_running_loop().time()
    waits = []
    for _ in range(7):
        inside.shut_out_for_a_while(flooder.id)
        waits.append(round(inside._shut_out[flooder.id].when() - now))
        inside._readmit(flooder.id)
    assert waits == [60, 120, 240, 480, 960, 1920, 1920]


async def test_a_lost_connection_does_not_leave_the_device_deaf(
    device: NewDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_RETRY_SECONDS", 0.01)
    here, honest, flooder = [await device(name) for name in ("here", "honest", "flooder")]
    await exchange(honest, here, b"hello")
    subscribe, failures = here.box.subscribe, iter(range(2))

    async def fail_twice(topic: str) -> None:
        if next(failures, None) is not None:
            raise OSError("lost")
        await subscribe(topic)

    monkeypatch.setattr(here.box, "subscribe", fail_twice)
    here.transport._started_intake.shut_out_for_a_while(flooder.id)
    await eventually(lambda: inbox(here, honest) in here.box.topics)


async def test_a_correct_device_that_restarts_is_not_shut_out(device: NewDevice) -> None:
    here, honest = [await device(name) for name in ("here", "honest")]
    limit(here)
    for _ in range(100):
        here.transport._refuse_frame(honest.id, MessageRefused("stale", "before the last restart"))
    here.receive_frame(inbox(here, honest), GARBAGE)
    await let_others_run()
    assert here.transport.listener().flooding == ()


async def test_it_leaves_its_inbox_without_waiting_for_the_replies_behind_the_flood(
    device: NewDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, honest, flooder = [await device(name) for name in ("here", "honest", "flooder")]
    await exchange(honest, here, b"hello")
    every = inbox(here, flooder).rpartition("/")[0] + "/+"
    sent: list[tuple[str, str]] = []

    def stall(what: str) -> Callable[[str], Coroutine[None, None, None]]:
        async def send(topic: str) -> None:
            sent.append((what, topic))
            await asyncio.Event().wait()

        return send

    monkeypatch.setattr(here.box, "subscribe", stall("subscribe"))
    monkeypatch.setattr(here.box, "unsubscribe", stall("unsubscribe"))
    here.transport._started_intake.shut_out_for_a_while(flooder.id)
    await eventually(lambda: ("unsubscribe", every) in sent)
    assert ("subscribe", inbox(here, honest)) in sent[:-1], "the senders first, or their messages would be lost"


async def test_it_leaves_its_inbox_again_after_a_lost_connection(device: NewDevice) -> None:
    here, honest, flooder = [await device(name) for name in ("here", "honest", "flooder")]
    await exchange(honest, here, b"hello")
    every = inbox(here, flooder).rpartition("/")[0] + "/+"
    here.transport._started_intake.shut_out_for_a_while(flooder.id)
    await eventually(lambda: every not in here.box.topics)
    here.box.topics.add(every)  # the session that the broker has kept
    await here.transport._on_connected()
    await eventually(lambda: every not in here.box.topics)
    assert inbox(here, honest) in here.box.topics
