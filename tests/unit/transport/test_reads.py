"""Messages being received: the slow ones give way, and everyone else's arrive."""

import asyncio
import gc

import pytest
from sottovoce.net.transports.reads import ReadDisplaced, Reads

from tests.support.waiting import let_others_run


async def never() -> bytes:
    await asyncio.Event().wait()
    return b""


async def arrived() -> bytes:
    return b"message"


async def test_the_oldest_of_the_peer_with_the_most_is_given_up() -> None:
    reads = Reads(3)
    slow = {
        name: asyncio.ensure_future(reads.read(peer, never()))
        for name, peer in (("honest", "a"), ("first", "b"), ("second", "b"))
    }
    await let_others_run(3)
    assert await reads.read("c", arrived()) == b"message"
    await asyncio.wait({slow["first"]})
    assert isinstance(slow["first"].exception(), ReadDisplaced)
    assert not slow["honest"].done()
    assert not slow["second"].done()
    for task in slow.values():
        task.cancel()
    await asyncio.wait(slow.values())
    assert reads._reading == {}


async def test_a_timeout_of_the_message_itself_is_passed_on() -> None:
    async def late() -> bytes:
        raise TimeoutError("late")

    with pytest.raises(TimeoutError, match="late"):
        await Reads(1).read("a", late())


async def test_the_receipt_of_a_message_that_is_given_up_goes_on_unheard() -> None:
    """gRPC would never free a message whose receipt was cancelled."""
    reads, message = Reads(1), asyncio.get_running_loop().create_future()
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    slow = asyncio.ensure_future(reads.read("a", message))
    await let_others_run(3)
    assert await reads.read("b", arrived()) == b"message"
    with pytest.raises(ReadDisplaced):
        await slow
    assert not message.cancelled()
    message.set_exception(OSError("the call has ended"))
    await let_others_run(3)
    assert reads._receiving == set()
    del message, slow
    gc.collect()
    assert unheard == []
