"""One carrier over several transports: its choice of transport, and the delivery of large messages."""

import asyncio
from collections.abc import Callable

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.net.transports import DeliveryFailed, Listener, Peer, Receive
from sottovoce.net.transports.multi_transport import MultiTransport
from sottovoce.net.wire import SplitMessage
from sottovoce.net.wire.v1.parts_pb2 import PartReceipt

ANSWER = b"answer"


class Way:
    """A transport for addresses with one prefix, and a record of its events.

    Attributes:
        act: answers what is delivered.
        sent: what was.
    """

    def __init__(self, kind: str, act: Callable[[bytes], bytes] = lambda _: ANSWER, largest: int = 1000) -> None:
        self.kind = kind
        self.act = act
        self.largest = largest
        self.sent: list[bytes] = []
        self.patience: list[float] = []
        self.receive: Receive | None = None
        self.stopped = False

    def reaches(self, address: str) -> bool:
        return address.startswith(self.kind)

    async def start(self, receive: Receive) -> None:
        self.receive = receive

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        assert peer.address.startswith(self.kind)
        self.sent.append(message)
        self.patience.append(timeout)
        return self.act(message)

    def listener(self) -> Listener:
        return Listener(3, 1)

    async def stop(self, grace: float) -> None:
        self.stopped = True


def fail_with(cause: str) -> Callable[[bytes], bytes]:
    def act(message: bytes) -> bytes:
        raise DeliveryFailed(cause, f"it failed: {cause}")

    return act


def raise_error(error: Exception) -> Callable[[bytes], bytes]:
    def act(message: bytes) -> bytes:
        raise error

    return act


BOTH = Peer("b", "grpc:1", "name", ("mqtt:main",))


async def test_the_first_transport_is_used_and_after_a_failure_the_last_working_one() -> None:
    direct, brokered = Way("grpc", fail_with("unreachable")), Way("mqtt")
    carrier = MultiTransport([direct, brokered])
    assert await carrier.deliver(BOTH, b"one", 10) == ANSWER
    assert await carrier.deliver(BOTH, b"two", 10) == ANSWER
    assert (direct.sent, brokered.sent) == ([b"one"], [b"one", b"two"])
    brokered.act, direct.act = fail_with("timeout"), lambda _: b"directly"
    assert await carrier.deliver(BOTH, b"three", 10) == b"directly"
    assert await carrier.deliver(BOTH, b"four", 10) == b"directly"
    assert brokered.sent == [b"one", b"two", b"three"]


@pytest.mark.parametrize("cause", ["refused", "busy", "other"])
async def test_the_peer_s_own_refusal_is_not_retried_on_another_transport(cause: str) -> None:
    direct, brokered = Way("grpc", fail_with(cause)), Way("mqtt")
    with pytest.raises(DeliveryFailed, match=cause):
        await MultiTransport([direct, brokered]).deliver(BOTH, b"one", 10)
    assert brokered.sent == []


async def test_all_transports_share_the_timeout() -> None:
    direct, brokered = Way("grpc", fail_with("unreachable")), Way("mqtt", fail_with("unreachable"))
    with pytest.raises(DeliveryFailed, match="unreachable"):
        await MultiTransport([direct, brokered]).deliver(BOTH, b"one", 10)
    assert direct.patience[0] == pytest.approx(5, abs=0.5)
    assert brokered.patience[0] == pytest.approx(10, abs=0.5)


async def test_without_a_suitable_transport_nothing_is_sent() -> None:
    carrier = MultiTransport([Way("grpc")])
    assert carrier.reaches("grpc:1")
    assert not carrier.reaches("mqtt:main")
    with pytest.raises(DeliveryFailed, match="transports") as exc_info:
        await carrier.deliver(Peer("b", "mqtt:main", "name"), b"one", 10)
    assert exc_info.value.cause == "unreachable"


async def connect_pair(
    largest: int = 1000,
) -> tuple[MultiTransport, MultiTransport, Way, list[tuple[str, bytes | None]]]:
    """Connect a sender and a recipient with one transport, and collect what the recipient receives."""
    way = Way("grpc", largest=largest)
    received: list[tuple[str, bytes | None]] = []

    async def receive(sender: str, raw: bytes | None) -> bytes:
        received.append((sender, raw))
        return ANSWER

    sender, recipient = MultiTransport([way]), MultiTransport([Way("grpc")])
    await recipient.start(receive)

    async def deliver(peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        way.act(message)
        way.sent.append(message)
        return await recipient._handle_received("a", message)

    way.deliver = deliver  # type: ignore[method-assign]
    return sender, recipient, way, received


PEER = Peer("b", "grpc:1", "name")


async def test_a_large_message_is_sent_in_parts_and_handed_over_once() -> None:
    sender, _, way, received = await connect_pair()
    large = bytes(range(200)) * 30
    assert await sender.deliver(PEER, large, 10) == ANSWER
    assert received == [("a", large)]
    assert all(len(message) <= way.largest for message in way.sent)
    assert await sender.deliver(PEER, large, 10) == ANSWER
    assert received == [("a", large)]  # the answer seems lost, and is repeated


async def test_delivery_continues_with_the_missing_part() -> None:
    sender, _, way, received = await connect_pair()
    large = bytes(range(200)) * 30
    way.act = lambda _: ANSWER if len(way.sent) != 3 else fail_with("unreachable")(b"")
    for _ in range(2):
        with pytest.raises(DeliveryFailed):
            await sender.deliver(PEER, large, 10)
    assert len(way.sent) == 3
    way.act = lambda _: ANSWER
    assert await sender.deliver(PEER, large, 10) == ANSWER
    assert len(set(way.sent)) == len(way.sent) == SplitMessage(large, way.largest - 64).count
    assert received == [("a", large)]


async def test_senders_do_not_mix_their_messages() -> None:
    _, recipient, _, received = await connect_pair()
    cuts = {name: SplitMessage(name.encode() * 500, 100) for name in "abc"}
    for index in range(5):
        for name, cut in cuts.items():
            await recipient._handle_received(name, cut.part(index))
    assert received == [(name, name.encode() * 500) for name in cuts]


async def test_a_sender_with_inconsistent_parts_is_refused_and_starts_over() -> None:
    _, recipient, _, received = await connect_pair()
    honest, other = SplitMessage(b"a" * 200, 100), SplitMessage(b"b" * 200, 100)
    lie = other.part(1).replace(other.digest, honest.digest)
    await recipient._handle_received("a", honest.part(0))
    with pytest.raises(MessageRefused, match="digest"):
        await recipient._handle_received("a", lie)
    assert recipient._reassembly.bytes_held == 0
    for index in range(2):
        await recipient._handle_received("a", honest.part(index))
    assert received == [("a", b"a" * 200)]


async def test_a_peer_that_requests_an_impossible_part_has_failed() -> None:
    way = Way("grpc", lambda _: PartReceipt(next=1000).SerializeToString())
    with pytest.raises(DeliveryFailed, match=r"requests.*part") as exc_info:
        await MultiTransport([way]).deliver(PEER, bytes(5000), 10)
    assert exc_info.value.cause == "other"


async def test_a_peer_that_requests_one_part_endlessly_only_costs_the_attempt() -> None:
    way = Way("grpc")
    way.deliver = slowly = Slowly()  # type: ignore[method-assign]
    with pytest.raises(DeliveryFailed, match="0 of 6") as exc_info:
        await MultiTransport([way]).deliver(PEER, bytes(5000), 0.2)
    assert exc_info.value.cause == "timeout"
    assert slowly.calls < 30


class Slowly:
    """Peer that requests the first part after a moment."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        self.calls += 1
        await asyncio.sleep(0.02)
        return PartReceipt(next=0).SerializeToString()


async def test_all_transports_are_stopped_and_their_counters_added() -> None:
    ways = [Way("grpc"), Way("mqtt")]
    carrier = MultiTransport(ways)
    assert carrier.listener() == Listener(6, 2)
    await carrier.stop(1)
    assert all(way.stopped for way in ways)


async def test_a_sender_over_its_quota_is_refused_before_any_check() -> None:
    sizes: list[tuple[str, int]] = []

    def admit(sender: str, size: int) -> None:
        sizes.append((sender, size))
        if len(sizes) > 2:
            raise MessageRefused("quota", "too much")

    async def receive(_sender: str, _raw: bytes | None) -> bytes:
        return ANSWER

    recipient = MultiTransport([Way("grpc")], admit)
    await recipient.start(receive)
    cut = SplitMessage(bytes(5000), 2000)
    await recipient._handle_received("a", b"whole")
    await recipient._handle_received("a", cut.part(0))
    with pytest.raises(MessageRefused, match="too much"):
        await recipient._handle_received("a", cut.part(1))
    assert sizes == [("a", 5), ("a", len(cut.part(0))), ("a", len(cut.part(1)))]


@pytest.mark.parametrize(
    "error, cause",
    [
        (ConnectionRefusedError("no"), "unreachable"),
        (asyncio.IncompleteReadError(b"", 4), "unreachable"),
        (TimeoutError(), "timeout"),
    ],
)
async def test_a_network_error_of_a_plug_in_s_transport_is_a_failed_delivery(error: Exception, cause: str) -> None:
    pipe, mqtt = Way("pipe", raise_error(error)), Way("mqtt")
    with pytest.raises(DeliveryFailed) as caught:
        await MultiTransport([pipe]).deliver(Peer("b", "pipe://1", "name"), b"hello", 5.0)
    assert caught.value.cause == cause
    assert (
        await MultiTransport([pipe, mqtt]).deliver(Peer("b", "pipe://1", "name", ("mqtt:main",)), b"x", 5.0) == ANSWER
    )


async def test_a_defect_of_a_transport_is_not_a_failed_delivery() -> None:
    with pytest.raises(ZeroDivisionError):
        await MultiTransport([Way("pipe", raise_error(ZeroDivisionError()))]).deliver(
            Peer("b", "pipe://1", "name"), b"hello", 5.0
        )
