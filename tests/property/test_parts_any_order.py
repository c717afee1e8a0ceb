"""Parts of several senders' messages, in any order, repeated, and mixed with forged parts."""

import asyncio
import contextlib
import hashlib

import hypothesis.strategies as st
from hypothesis import given, settings
from sottovoce.errors import MessageRefused
from sottovoce.net.transports.multi_transport import MultiTransport
from sottovoce.net.wire import Assembly, SplitMessage, decode_part, is_part
from sottovoce.net.wire.v1.parts_pb2 import Part

_messages = st.binary(min_size=2, max_size=200)


@settings(max_examples=100, deadline=None)
@given(message=_messages, part_count_limit=st.integers(1, 100), data=st.data())
def test_a_message_is_complete_only_once_all_parts_arrived(
    message: bytes, part_count_limit: int, data: st.DataObject
) -> None:
    split = SplitMessage(message, min(part_count_limit, len(message) - 1))
    order = data.draw(st.lists(st.integers(0, split.count - 1), max_size=2 * split.count))
    order += data.draw(st.permutations(range(split.count)))
    assembly, arrived = Assembly(decode_part(split.part(order[0]))), set()
    for index in order:
        assert is_part(split.part(index))
        assembled = assembly.add(decode_part(split.part(index)))
        arrived.add(index)
        if len(arrived) == split.count:
            assert assembled == message
            return
        assert assembled is None
        next_index = split.next_part(assembly.receipt())
        assert next_index == min(set(range(split.count)) - arrived)


_forged_fields = st.fixed_dictionaries(
    {},
    optional={
        "message": st.one_of(st.binary(max_size=40), st.binary(min_size=32, max_size=32)),
        "index": st.integers(0, 2**32 - 1),
        "count": st.one_of(st.integers(0, 6), st.integers(0, 2**32 - 1)),
        "piece": st.binary(max_size=80),
    },
)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_only_messages_that_match_their_digest_are_delivered(data: st.DataObject) -> None:
    """Include forged parts: only bytes that match the announced digest are delivered, under their sender's name."""
    senders = "abc"
    splits = {name: [SplitMessage(data.draw(_messages), 20) for _ in range(2)] for name in senders}
    sent: list[tuple[str, bytes]] = []
    for name in senders:
        for split in splits[name]:
            if split.count >= 2:
                sent += [(name, split.part(index)) for index in range(split.count)]
    for _ in range(data.draw(st.integers(0, 10))):
        name = data.draw(st.sampled_from(senders))
        part = Part.FromString(data.draw(st.sampled_from(splits[name])).part(0))
        for field, value in data.draw(_forged_fields).items():
            setattr(part, field, value)
        sent.append((name, part.SerializeToString()))
    sent = data.draw(st.permutations(sent)) + sent
    received: list[tuple[str, bytes]] = []
    announced = {(name, Part.FromString(raw).message) for name, raw in sent}

    async def receive(sender: str, raw: bytes | None) -> bytes:
        assert raw is not None
        received.append((sender, raw))
        return b""

    async def run() -> None:
        carrier = MultiTransport([])
        await carrier.start(receive)
        for name, raw in sent:
            if not is_part(raw):
                continue  # without a digest it is a message, for anyone who reads those
            with contextlib.suppress(MessageRefused):
                await carrier._handle_received(name, raw)

    asyncio.run(run())
    for name, message in received:
        assert (name, hashlib.sha256(message).digest()) in announced
