"""Parts of several messages of several senders, in any order, repeated, and with lies among them."""

import asyncio
import contextlib
import hashlib

import hypothesis.strategies as st
from hypothesis import given, settings
from sottovoce.errors import MessageRefused
from sottovoce.transport.multi_transport import MultiTransport
from sottovoce.wire import Assembly, SplitMessage, decode_part, is_part
from sottovoce.wire.v1.parts_pb2 import Part

_messages = st.binary(min_size=2, max_size=200)


@settings(max_examples=100, deadline=None)
@given(message=_messages, most=st.integers(1, 100), data=st.data())
def test_a_message_is_whole_when_its_last_part_is_here_and_never_before(
    message: bytes, most: int, data: st.DataObject
) -> None:
    cut = SplitMessage(message, min(most, len(message) - 1))
    order = data.draw(st.lists(st.integers(0, cut.count - 1), max_size=2 * cut.count))
    order += data.draw(st.permutations(range(cut.count)))
    assembly, here = Assembly(decode_part(cut.part(order[0]))), set()
    for index in order:
        assert is_part(cut.part(index))
        whole = assembly.add(decode_part(cut.part(index)))
        here.add(index)
        if len(here) == cut.count:
            assert whole == message
            return
        assert whole is None
        wanted = cut.next_part(assembly.receipt())
        assert wanted == min(set(range(cut.count)) - here)


_lies = st.fixed_dictionaries(
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
def test_what_is_handed_over_is_what_its_sender_cut_up_whatever_else_it_claims(data: st.DataObject) -> None:
    """Lies included: only bytes with the digest that their parts name come through, in their own sender's name."""
    senders = "abc"
    cuts = {name: [SplitMessage(data.draw(_messages), 20) for _ in range(2)] for name in senders}
    sent: list[tuple[str, bytes]] = []
    for name in senders:
        for cut in cuts[name]:
            if cut.count >= 2:
                sent += [(name, cut.part(index)) for index in range(cut.count)]
    for _ in range(data.draw(st.integers(0, 10))):
        name = data.draw(st.sampled_from(senders))
        part = Part.FromString(data.draw(st.sampled_from(cuts[name])).part(0))
        for field, value in data.draw(_lies).items():
            setattr(part, field, value)
        sent.append((name, part.SerializeToString()))
    sent = data.draw(st.permutations(sent)) + sent
    received: list[tuple[str, bytes]] = []
    named = {(name, Part.FromString(raw).message) for name, raw in sent}

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
        assert (name, hashlib.sha256(message).digest()) in named
