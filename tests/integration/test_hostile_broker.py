"""Broker that reads, stores, repeats, reorders, loses, alters and forges: it learns no payload and changes no state."""

import asyncio
import random
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt import client as paho
from sottovoce.net.transports import DeliveryFailed
from sottovoce.net.transports.mqtt import MqttTransport, connection
from sottovoce.net.wire.v1.mqtt_pb2 import Frame, Introduction

from tests.support.fleets import new_fleet
from tests.support.hostile_broker import (
    CONNACK,
    DISCONNECT,
    PUBACK,
    PUBLISH,
    SUBACK,
    UNSUBACK,
    HostileBroker,
    Message,
    honest,
    packet,
)
from tests.support.mischief import Mischief
from tests.support.transports import Devices, Node, devices
from tests.support.waiting import eventually, let_others_run

SEED = 20_17


@pytest.fixture
def broker() -> Iterator[HostileBroker]:
    with HostileBroker() as hostile:
        yield hostile


@pytest.fixture(params=["mqtt", "mqtt-3.1.1"])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path, broker: HostileBroker) -> AsyncIterator[Devices]:
    async with devices(request.param, new_fleet(tmp_path / "fleet"), tmp_path, lambda: broker.port) as created:
        yield created
        broker.judge = honest


def inner(node: Node) -> MqttTransport:
    assert isinstance(node.inner, MqttTransport)
    return node.inner


def inbox(recipient: Node, sender: Node) -> str:
    return f"sottovoce/v1/{sender.identity.fleet}/in/{recipient.identity.node_id}/{sender.identity.node_id}"


def shorten_pauses(patch: pytest.MonkeyPatch) -> None:
    """Reconnect at once, however often connections break."""
    patch.setattr(connection, "_LONGEST_PAUSE", connection._SHORTEST_PAUSE)


async def test_under_any_mischief_only_the_sent_messages_are_handed_over_and_none_is_read(
    fleet: Devices, broker: HostileBroker, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = [await fleet.start(fleet.identity(name)) for name in "abc"]
    for one in nodes:
        for other in nodes:
            if one is not other:
                await one.ask(other, b"hello")
    broker.judge = mischief = Mischief(SEED)
    rng = random.Random(SEED)
    tries: Counter[tuple[str, str, bytes]] = Counter()
    secrets: list[bytes] = []
    causes: set[str] = set()

    async def talk(one: Node, other: Node) -> None:
        """Send some messages, each until it is answered."""
        for _ in range(12):
            secret = b"secret" + rng.randbytes(42)
            secrets.append(secret)
            while True:
                tries[one.identity.node_id, other.identity.node_id, secret] += 1
                try:
                    answer = await one.transport.deliver(other.peer, secret, 0.6)
                except DeliveryFailed as failure:
                    causes.add(failure.cause)
                    await asyncio.sleep(0.02)
                    continue
                assert answer == secret[::-1]
                break

    async with asyncio.timeout(100):
        await asyncio.gather(*(talk(one, other) for one in nodes for other in nodes if one is not other))
    received = Counter(
        (sender, node.identity.node_id, message)
        for node in nodes
        for sender, message in node.received
        if message is not None and message != b"hello"
    )
    assert set(received) == set(tries)
    assert causes <= {"timeout", "unreachable", "busy"}
    assert all(count <= tries[key] for key, count in received.items())
    assert all(count >= 10 for count in mischief.done.values()), mischief.done
    observed = b"".join(message.payload for message in broker.captured)
    assert not any(part in observed for secret in secrets for part in (secret[6:24], secret[24:], secret[24:][::-1]))
    assert all(inner(node).refused.total() > 50 for node in nodes)
    lines = Counter((record.name, record.getMessage().split(" ")[1]) for record in caplog.records)
    assert all(count <= len(nodes) for count in lines.values()), lines


async def test_a_message_is_handed_over_once_although_devices_restart(
    fleet: Devices, broker: HostileBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_pauses(monkeypatch)
    a, b = await fleet.pair()
    for i in range(5):
        assert await a.ask(b, b"%d" % i) == b"%d" % i
        assert await b.ask(a, b"%d" % i) == b"%d" % i
    received = {a.identity.node_id: len(a.received), b.identity.node_id: len(b.received)}

    async def replay(*nodes: Node) -> None:
        """Publish everything published so far to all present devices; none of it is handed over."""
        past = list(broker.captured)
        handed = [len(node.received) for node in nodes]
        for start in range(0, len(past), 100):  # no more than a device stores for later
            broker.inject(*past[start : start + 100])
            for node, other in (nodes, nodes[::-1]):
                seen = inner(node).refused["size"]
                broker.inject(Message(inbox(node, other), bytes(2**18 - 200)))
                await eventually(lambda node=node, seen=seen: inner(node).refused["size"] > seen)  # type: ignore[misc]
        assert [len(node.received) for node in nodes] == handed

    await replay(a, b)
    assert min(inner(node).refused["replayed"] for node in (a, b)) >= 10
    for node in (a, b):  # as if the broker had ended and restarted them
        broker.drop(node.identity.node_id)
        await eventually(lambda node=node: not inner(node).connection.is_up)  # type: ignore[misc]
        await eventually(lambda node=node: inner(node).connection.is_up)  # type: ignore[misc]
    await replay(a, b)
    assert received == {a.identity.node_id: len(a.received), b.identity.node_id: len(b.received)}
    await b.transport.stop(0.2)
    b = await fleet.start(b.identity)
    await eventually(lambda: inner(b).connection.is_up)
    await replay(a, b)
    assert await a.ask(b, b"anew") == b"wena"
    await replay(a, b)
    await a.transport.stop(0.2)
    a = await fleet.start(a.identity)
    await eventually(lambda: inner(a).connection.is_up)
    await replay(a, b)
    assert await a.ask(b, b"and again") == b"niaga dna"
    await replay(a, b)
    assert set(b.received) == {(a.identity.node_id, b"anew"), (a.identity.node_id, b"and again")}


NO_MQTT = {
    "a topic with a wildcard": packet(PUBLISH, b"\0\3a/+\0\1\0x", 2),
    "no topic": packet(PUBLISH, b"\0\0\0\1\0x", 2),
    "a topic that is no text": packet(PUBLISH, b"\0\2\xff\xfe\0\1\0x", 2),
    "a message cut off": packet(PUBLISH, b"\0", 2),
    "properties without end": packet(PUBLISH, b"\0\1a\0\1\x05\xff\xff\xff\xff\xff", 2),
    "a quality that there is not": packet(PUBLISH, b"\0\1a\0\1\0", 6),
    "a quality that was not asked for": packet(PUBLISH, b"\0\1a\0\1\0", 4) * 3,
    "an answer to nothing, cut off": packet(CONNACK, b""),
    "a subscription, cut off": packet(SUBACK, b"\0"),
    "an end of one, unknown": packet(UNSUBACK, b"\xff\xff\0\1"),
    "a packet of no kind": b"\x00\x00",
    "a length without end": b"\x30\xff\xff\xff\xff\xff",
    "a packet of 256 MiB": b"\x30\xff\xff\xff\x7f" + bytes(100_000),
}


async def test_a_device_leaves_a_broker_that_sends_no_mqtt(
    broker: HostileBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that kept reading invalid input would never end, and would occupy a core."""
    shorten_pauses(monkeypatch)
    async with devices("mqtt", new_fleet(tmp_path / "fleet"), tmp_path, lambda: broker.port) as fleet:
        a, b = await fleet.pair()
        await a.ask(b, b"hello")
        for what, raw in NO_MQTT.items():
            before = broker.connections
            broker.send(a.identity.node_id, raw)
            await eventually(lambda before=before: broker.connections > before)  # type: ignore[misc]
            assert await a.ask(b, what.encode()) == what.encode()[::-1]
            await eventually(lambda: broker.open == 2)
        for raw in (packet(SUBACK, b"\xff\xff\0\1"), packet(PUBACK, b"\xff\xff")):
            broker.send(a.identity.node_id, raw)  # unrequested answers have no effect
        assert await a.ask(b, b"still here") == b"ereh llits"


async def test_session_taken_over_is_reported_once_a_minute(
    broker: HostileBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shorten_pauses(monkeypatch)
    async with devices("mqtt", new_fleet(tmp_path / "fleet"), tmp_path, lambda: broker.port) as fleet:
        a = await fleet.start(fleet.identity("a"))
        for count in (1, 2, 3):
            await eventually(lambda: inner(a).connection.is_up)
            broker.send(a.identity.node_id, packet(DISCONNECT, b"\x8e"))
            await eventually(lambda count=count: inner(a).connection.duplicates == count)  # type: ignore[misc]
        assert len([line for line in caplog.messages if "duplicate-identity" in line]) == 1
        assert len([line for line in caplog.messages if "broker-lost" in line]) == 1


@pytest.mark.slow
async def test_ten_thousand_garbage_messages_change_nothing(
    broker: HostileBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with devices("mqtt", new_fleet(tmp_path / "fleet"), tmp_path, lambda: broker.port) as fleet:
        a, b = await fleet.pair()
        await a.ask(b, b"hello")
        topic = inbox(b, a)
        presence = f"sottovoce/v1/{a.identity.fleet}/peer/{a.identity.node_id}"
        true = broker.on(topic)[0]
        rng, connections = random.Random(SEED), broker.connections
        for _ in range(100):
            flood = [Message(rng.choice((topic, presence)), rng.randbytes(rng.choice((0, 10, 200)))) for _ in range(70)]
            flood += [replace(true, payload=_forge(rng, true.payload)) for _ in range(30)]
            broker.inject(*flood)
            await let_others_run()
        assert await a.ask(b, b"still here", 5) == b"ereh llits"
        assert [message for _, message in b.received if message != b"still here"] == [b"hello"]
        assert broker.connections == connections
        causes = Counter(line.split(" ")[1] for line in caplog.messages if line.startswith("frame-refused"))
        assert set(causes.values()) <= {1, 2}  # once for each of the two devices
        assert len(inner(b)._known_devices._known) == 1


def _forge(rng: random.Random, raw: bytes) -> bytes:
    """Return a frame that appears to introduce its sender again."""
    frame = Frame.FromString(raw)
    word = Introduction.FromString(frame.introduction)
    word.sequence, word.session_key = rng.randrange(2**40, 2**41), rng.randbytes(32)
    frame.introduction = word.SerializeToString(deterministic=True)
    return frame.SerializeToString(deterministic=True)


async def test_a_presence_that_arrives_before_the_subscription_s_answer_is_heard(
    broker: HostileBroker, tmp_path: Path
) -> None:
    async with devices("mqtt", new_fleet(tmp_path / "fleet"), tmp_path, lambda: broker.port) as fleet:
        a, b = await fleet.pair()
        await eventually(lambda: len(broker.retained) == 2)
        assert await a.transport.deliver(b.peer, b"hello", 20) == b"olleh"


async def test_devices_contradict_farewells_published_while_they_are_present(
    broker: HostileBroker, tmp_path: Path
) -> None:
    """For each connection, the broker has a farewell, to be published when the connection breaks."""
    async with devices("mqtt", new_fleet(tmp_path / "fleet"), tmp_path, lambda: broker.port) as fleet:
        a, b = await fleet.pair()
        await a.ask(b, b"hello")
        await b.ask(a, b"hello")
        wills = [client.will for client in broker.clients.values() if client.will is not None]
        assert len(wills) == 2
        broker.inject(*wills)
        assert await a.ask(b, b"still there") == b"ereht llits"
        assert await b.ask(a, b"so am I") == b"I ma os"


async def test_a_wait_for_the_broker_ends_with_the_connection(
    broker: HostileBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that has just announced itself also notices a connection that broke in the meantime."""
    shorten_pauses(monkeypatch)
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 1000.0)
    async with devices("mqtt", new_fleet(tmp_path / "fleet"), tmp_path, lambda: broker.port) as fleet:
        a, b = await fleet.pair()
        await a.ask(b, b"hello")
        broker.acknowledges, broker.judge = False, lambda _: ()
        before = broker.connections
        delivery = asyncio.create_task(a.transport.deliver(b.peer, b"held", 1000))
        await eventually(lambda: len(broker.on(inbox(b, a))) == 2)
        broker.drop(a.identity.node_id)
        with pytest.raises(DeliveryFailed, match="did not accept the message") as exc_info:
            await delivery
        assert exc_info.value.cause == "unreachable"
        for count in (1, 2):
            await eventually(lambda: inner(a).connection.is_up)
            broker.drop(a.identity.node_id)
            await eventually(lambda count=count: broker.connections > before + count)  # type: ignore[misc]
        broker.acknowledges, broker.judge = True, honest
        await eventually(lambda: inner(a).connection.is_up)
        assert await a.ask(b, b"again") == b"niaga"


async def test_a_transport_stops_although_the_broker_is_silent(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        async with asyncio.timeout(60), devices("mqtt", new_fleet(tmp_path / "fleet"), tmp_path, lambda: port) as fleet:
            a = await fleet.start(fleet.identity("a"))
            connected, _ = await asyncio.to_thread(silent.accept)
            with pytest.raises(DeliveryFailed, match="no connection to the broker"):
                await a.transport.deliver(a.peer, b"", 1)
            await a.transport.stop(0.1)
            with connected:
                connected.settimeout(20)
                while await asyncio.to_thread(connected.recv, 4096):
                    pass  # until it ends


async def test_a_transport_stopped_while_connecting_leaves_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = threading.Event()
    opened = paho.Client._create_socket

    def slowly(client: paho.Client) -> Any:
        opening = opened(client)
        stopped.wait(20)
        return opening

    monkeypatch.setattr(paho.Client, "_create_socket", slowly)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        async with asyncio.timeout(60), devices("mqtt", new_fleet(tmp_path / "fleet"), tmp_path, lambda: port) as fleet:
            a = await fleet.start(fleet.identity("a"))
            connected, _ = await asyncio.to_thread(silent.accept)
            await a.transport.stop(0.1)
            stopped.set()
            with connected:
                connected.settimeout(20)
                while await asyncio.to_thread(connected.recv, 4096):
                    pass  # until it ends


async def test_a_transport_stops_although_its_farewell_is_not_accepted(tmp_path: Path, broker: HostileBroker) -> None:
    async with devices("mqtt", new_fleet(tmp_path / "fleet"), tmp_path, lambda: broker.port) as fleet:
        a = await fleet.start(fleet.identity("a"))
        await eventually(lambda: inner(a).connection.is_up)
        broker.acknowledges = False
        await a.transport.stop(0.1)
        await eventually(lambda: broker.open == 0)
