"""Messages in parts: how many a device holds, for how long, and what their senders hear."""

import asyncio
from collections.abc import Iterator
from weakref import WeakSet

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.net.transports import reassembly as module
from sottovoce.net.transports.reassembly import MAX_ANSWERS, MAX_MESSAGES, PATIENCE, Reassembly
from sottovoce.net.wire import Assembly, SplitMessage
from sottovoce.net.wire.v1.parts_pb2 import Part, PartReceipt

from tests.support.virtual_day import Clock, VirtualLoop

ANSWER = b"answer"
FIRST = PartReceipt(next=0).SerializeToString()


@pytest.fixture
def virtual() -> Iterator[VirtualLoop]:
    loop = VirtualLoop(Clock())
    yield loop
    loop.close()


async def answer(sender: str, message: bytes | None) -> bytes:
    return ANSWER


def split(name: str, parts: int = 2) -> SplitMessage:
    return SplitMessage(name.encode().ljust(100 * parts, b"."), 100)


async def begin(reassembly: Reassembly, senders: int) -> None:
    for number in range(senders):
        await reassembly.receive(f"d{number}", split(f"d{number}").part(0), answer)


def test_an_idle_device_forgets_messages_whose_parts_stopped_arriving(virtual: VirtualLoop) -> None:
    async def play() -> None:
        reassembly = Reassembly()
        await begin(reassembly, MAX_MESSAGES)
        assert reassembly.bytes_held == MAX_MESSAGES * 100
        await asyncio.sleep(PATIENCE + 1)
        assert reassembly.bytes_held == 0

    virtual.run_until_complete(play())


def test_only_a_new_part_extends_the_time_for_the_next(virtual: VirtualLoop) -> None:
    async def play() -> None:
        reassembly, slow, stuck, said = Reassembly(), split("slow", 3), split("stuck", 3), b""
        for index in range(3):
            await reassembly.receive("stuck", stuck.part(0), answer)
            said = await reassembly.receive("slow", slow.part(index), answer)
            await asyncio.sleep(0.6 * PATIENCE)
        assert said == ANSWER
        assert reassembly.bytes_held == 100  # the stuck message was dropped, and its part 0 began it again
        await asyncio.sleep(0.6 * PATIENCE)
        assert reassembly.bytes_held == 0

    virtual.run_until_complete(play())


async def test_a_message_is_dropped_before_a_part_of_another_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: WeakSet[Assembly] = WeakSet()

    class Counted(Assembly):
        def __init__(self, part: Part) -> None:
            super().__init__(part)
            kept.add(self)
            assert len(kept) <= MAX_MESSAGES

    monkeypatch.setattr(module, "Assembly", Counted)
    reassembly = Reassembly()
    await begin(reassembly, 3 * MAX_MESSAGES)
    assert len(kept) == MAX_MESSAGES
    assert await reassembly.receive("d0", split("d0").part(1), answer) == FIRST, "it is asked for the first part again"


async def test_messages_that_are_being_handled_keep_their_places() -> None:
    reassembly, handle = Reassembly(), asyncio.Event()

    async def answer_late(sender: str, message: bytes | None) -> bytes:
        await handle.wait()
        return ANSWER

    await begin(reassembly, MAX_MESSAGES)
    handled = [
        asyncio.ensure_future(reassembly.receive(f"d{number}", split(f"d{number}").part(1), answer_late))
        for number in range(MAX_MESSAGES)
    ]
    await asyncio.sleep(0)
    assert reassembly.bytes_held == 0, "the parts are given up once the message is whole"
    for sender in ("d0", "another"):
        with pytest.raises(MessageRefused) as caught:
            await reassembly.receive(sender, split(sender).part(0), answer)
        assert caught.value.reason == "quota"
    handle.set()
    assert await asyncio.gather(*handled) == [ANSWER] * MAX_MESSAGES
    assert await reassembly.receive("d0", split("d0").part(1), answer_late) == ANSWER, "the answer is repeated"
    assert await reassembly.receive("another", split("another").part(1), answer) == FIRST


async def test_only_the_last_answers_are_remembered() -> None:
    reassembly = Reassembly()
    for number in range(MAX_ANSWERS + 1):
        for index in range(2):
            await reassembly.receive(f"d{number}", split(f"d{number}").part(index), answer)
    assert await reassembly.receive("d1", split("d1").part(1), answer) == ANSWER
    assert await reassembly.receive("d0", split("d0").part(1), answer) == FIRST


async def test_a_message_whose_handling_failed_is_handled_again() -> None:
    async def fail(sender: str, message: bytes | None) -> bytes:
        raise MessageRefused("quota", "later")

    reassembly = Reassembly()
    await begin(reassembly, 1)
    with pytest.raises(MessageRefused):
        await reassembly.receive("d0", split("d0").part(1), fail)
    await begin(reassembly, 1)
    assert await reassembly.receive("d0", split("d0").part(1), answer) == ANSWER
