"""Guarantees of every transport, in one suite for all, over real sockets and a real broker."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sottovoce.errors import DataError, MessageRefused
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.net.transports.multi_transport import MultiTransport
from sottovoce.net.wire.arrays import MAX_ENVELOPE_BYTES

from tests.support.fleets import new_fleet
from tests.support.mosquitto import Broker
from tests.support.transports import KINDS, Devices, Node, devices, make_grpc_transport, make_mqtt_transport


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.process if "mqtt" in kind else ()) for kind in KINDS])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Devices]:
    def port() -> int:
        running: Broker = request.getfixturevalue("broker")
        return running.port

    async with devices(request.param, new_fleet(tmp_path / "fleet"), tmp_path, port) as created:
        yield created


async def test_a_message_arrives_complete_and_its_recipient_answers(fleet: Devices) -> None:
    a, b = await fleet.pair()
    assert await a.ask(b, b"there") == b"ereht"
    assert await b.ask(a, b"back") == b"kcab"
    assert (a.identity.node_id, b"there") in b.received
    assert (b.identity.node_id, b"back") in a.received


async def test_a_large_message_arrives_in_parts_and_is_handed_over_once(fleet: Devices) -> None:
    a, b = await fleet.pair()
    large = random.Random(1).randbytes(MAX_ENVELOPE_BYTES)
    assert await a.ask(b, large, 60) == large[:64][::-1]
    assert b.received == [(a.identity.node_id, large)]


async def test_a_large_message_resumes_where_an_earlier_attempt_ended(fleet: Devices) -> None:
    a, b = await fleet.pair()
    await a.ask(b, b"hello")
    large = random.Random(2).randbytes(5 * b.inner.largest)
    sent: list[int] = []
    deliver = a.inner.deliver

    async def deliver_and_count(peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        if len(sent) == 3:
            sent.append(0)
            raise DeliveryFailed("unreachable", "cut here")
        sent.append(len(message))
        return await deliver(peer, message, timeout)

    a.inner.deliver = deliver_and_count  # type: ignore[method-assign]
    assert await a.ask(b, large) == large[:64][::-1]
    assert b.received[-1] == (a.identity.node_id, large)
    parts = -(-len(large) // (b.inner.largest - 64))
    assert len([item for item in sent if item]) == parts  # none arrives twice


async def test_many_simultaneous_messages_get_their_own_answers(fleet: Devices) -> None:
    a, b = await fleet.pair()
    messages = [b"message %d" % i for i in range(24)]
    assert await asyncio.gather(*(a.ask(b, message) for message in messages)) == [item[::-1] for item in messages]


async def test_a_refusal_states_its_reason_and_is_not_retried(fleet: Devices) -> None:
    a, b = await fleet.pair()
    b.answer = MessageRefused("shape", "it has 3 numbers, not 4")
    with pytest.raises(DeliveryFailed, match="shape: it has 3 numbers") as refused:
        await a.ask(b, b"wrong")
    assert refused.value.cause == "refused"


async def test_a_recipient_s_failure_reveals_no_details(fleet: Devices) -> None:
    a, b = await fleet.pair()
    await a.ask(b, b"hello")
    b.answer = DataError("row 3 holds 17.5")
    with pytest.raises(DeliveryFailed) as exc_info:
        await a.transport.deliver(b.peer, b"anything", 10)
    assert exc_info.value.cause == "other"
    assert "17.5" not in str(exc_info.value)


async def test_a_missing_answer_is_a_timeout(fleet: Devices) -> None:
    a, b = await fleet.pair()
    await a.ask(b, b"hello")
    b.open.clear()
    with pytest.raises(DeliveryFailed) as late:
        await a.transport.deliver(b.peer, b"slow", 0.3)
    assert late.value.cause == "timeout"
    b.open.set()
    assert await a.ask(b, b"again") == b"niaga"


async def test_an_excessive_caller_waits_or_is_refused_and_blocks_no_other(fleet: Devices) -> None:
    a, b = await fleet.pair()
    c = await fleet.start(fleet.identity("c"))
    await a.ask(b, b"hello")
    await c.ask(b, b"hello")
    b.open.clear()
    flood = [asyncio.create_task(a.transport.deliver(b.peer, b"flood", 30)) for _ in range(12)]
    await b.wait_for_message(a, b"flood")
    polite = asyncio.create_task(c.transport.deliver(b.peer, b"polite", 30))
    await b.wait_for_message(c, b"polite")
    assert 1 <= b.received.count((a.identity.node_id, b"flood")) <= 4
    b.open.set()
    assert await polite == b"etilop"
    answers = await asyncio.gather(*flood, return_exceptions=True)
    assert {answer for answer in answers if isinstance(answer, bytes)} == {b"doolf"}
    causes = {answer.cause for answer in answers if isinstance(answer, DeliveryFailed)}
    assert causes <= {"busy"}


async def test_an_absent_peer_is_unreachable_until_it_returns(fleet: Devices) -> None:
    a, b = await fleet.pair()
    await a.ask(b, b"hello")
    await b.transport.stop(0.5)
    with pytest.raises(DeliveryFailed) as away:
        await a.transport.deliver(b.peer, b"away", 1.0)
    assert away.value.cause in ("unreachable", "timeout")
    restarted = await fleet.start(b.identity, b.address)
    assert await a.ask(restarted, b"anew") == b"wena"
    assert (a.identity.node_id, b"anew") in restarted.received


async def test_stopping_a_transport_ends_its_deliveries(fleet: Devices) -> None:
    a, b = await fleet.pair()
    await a.ask(b, b"hello")
    b.open.clear()
    sending = asyncio.create_task(a.transport.deliver(b.peer, b"slow", 30))
    await b.wait_for_message(a, b"slow")
    async with asyncio.timeout(20):
        await a.transport.stop(0.2)
        with pytest.raises((DeliveryFailed, asyncio.CancelledError)):
            await sending


@pytest.mark.process
async def test_a_device_with_two_transports_uses_the_one_that_works(tmp_path: Path, broker: Broker) -> None:
    fleet = new_fleet(tmp_path / "fleet")
    async with devices("grpc", fleet, tmp_path, lambda: 0) as direct:
        a, b = direct.identity("a"), direct.identity("b")
        nodes = []
        for identity, address in ((a, "127.0.0.1:1"), (b, "127.0.0.1:1")):
            ways = [make_grpc_transport(identity, "127.0.0.1:0"), make_mqtt_transport(identity, broker.port, 1)]
            node = Node(identity, address, MultiTransport(ways), ways[0])
            node.open.set()
            await node.transport.start(node.receive)
            direct.made.append(node)
            nodes.append(node)
        peer = Peer(b.node_id, "127.0.0.1:1", b.dns_name, ("mqtt:main",))
        async with asyncio.timeout(30):
            while True:
                try:
                    assert await nodes[0].transport.deliver(peer, b"either way", 4) == b"yaw rehtie"
                    break
                except DeliveryFailed:
                    await asyncio.sleep(0.1)
        with pytest.raises(DeliveryFailed, match="none of this device's transports can reach this peer"):
            await nodes[0].transport.deliver(Peer(b.node_id, "mqtt:other", b.dns_name), b"", 1)
