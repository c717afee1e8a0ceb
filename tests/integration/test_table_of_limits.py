"""The table of limits in docs/reference/faults.md, played row by row with input that is too large, too much or silent.

The numbers come from the table: input at a limit is accepted, and input beyond it gets what the table says. A row
without a player fails.
"""

import asyncio
import os
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from sottovoce.errors import MessageRefused
from sottovoce.fleet import Identity
from sottovoce.net.page_server import PageServer
from sottovoce.net.quota import Quota
from sottovoce.net.transports.grpc import METHOD
from sottovoce.net.transports.mqtt.client import Broker as BrokerAddress, new_client
from sottovoce.net.transports.multi_transport import MultiTransport
from sottovoce.net.transports.reads import ReadDisplaced
from sottovoce.net.wire import SplitMessage
from sottovoce.net.wire.v1.parts_pb2 import Part, PartReceipt
from sottovoce.node.control import ControlServer, ControlTarget
from sottovoce.ops.page import text_page
from sottovoce.privacy.rpc.admission import Admission
from sottovoce_home.broker import BrokerSettings, open_session
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.devices import free_port
from tests.support.fleets import new_fleet
from tests.support.grpc_nodes import Node, listening
from tests.support.hostile_broker import HostileBroker, Message, packet
from tests.support.mailbox import Post, exchange, inbox, send_and_wait, use_mailboxes
from tests.support.member_floods import frame, request
from tests.support.transports import devices
from tests.support.waiting import TIMEOUT, eventually, let_others_run

PAGE = Path(__file__).parents[2] / "docs/reference/faults.md"
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20}
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


def read_table() -> dict[str, tuple[str, str]]:
    """Return the limit and the answer of each entry, as the page states them."""
    section = PAGE.read_text().partition("## What others can make a device hold")[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {entry: (limit, answer) for entry, limit, answer in rows[2:]}


TABLE = read_table()


@dataclass
class Scene:
    """A player's row and resources.

    Attributes:
        limits: the numbers of the row's limit, in order; sizes are in bytes.
        answer: what the row says that the sender gets.
        directory: an empty directory.
        fleet: a fleet.
        patch: undoes changes at the end.
    """

    limits: list[int]
    answer: str
    directory: Path
    fleet: Fleet
    patch: pytest.MonkeyPatch
    _count: int = field(default=0)

    def enrol(self) -> Identity:
        """Return a new member of the fleet."""
        self._count += 1
        return enrol(self.fleet, self.directory / f"member-{self._count}")

    def heard(self, words: str) -> None:
        """Check that the row announces what the sender heard."""
        assert words in self.answer, f"the sender got {words}, and the table says {self.answer}"


Player = Callable[[Scene], Awaitable[None]]
PLAYERS: dict[str, Player] = {}


def plays(entry: str) -> Callable[[Player], Player]:
    def register(player: Player) -> Player:
        PLAYERS[entry] = player
        return player

    return register


def test_every_row_has_a_player() -> None:
    assert set(PLAYERS) == set(TABLE)


@pytest.mark.parametrize("entry", TABLE)
async def test_beyond_the_limit_the_sender_gets_what_the_table_says(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit, answer = TABLE[entry]
    numbers = [
        round(float(number) * UNITS[unit or ""]) for number, unit in re.findall(r"([\d.]+)(?: (KiB|MiB))?", limit)
    ]
    await PLAYERS[entry](Scene(numbers, answer, tmp_path, new_fleet(tmp_path / "fleet"), monkeypatch))


async def never() -> AsyncIterator[bytes]:
    """A message that never comes."""
    await asyncio.Event().wait()
    yield b""


@asynccontextmanager
async def called(scene: Scene, callers: int) -> AsyncIterator[tuple[Node, list[grpc.aio.Channel], list[Node]]]:
    """A device that is called by others, with a channel of each."""
    target, nodes = Node(scene.enrol()), [Node(scene.enrol()) for _ in range(callers)]
    async with listening(target):
        channels = [node.transport._channel_to(node.peer(target)).channel for node in nodes]
        yield target, channels, nodes
        target.open.set()
        await asyncio.gather(*(node.transport.stop(0) for node in nodes))


async def code_of(call: Any) -> grpc.StatusCode:
    async with asyncio.timeout(TIMEOUT):
        code: grpc.StatusCode = await call.code()
    return code


@plays("gRPC: a message")
async def play_large_message(scene: Scene) -> None:
    async with called(scene, 1) as (target, (channel,), _):
        assert await channel.stream_unary(METHOD)(iter([bytes(scene.limits[0])]), timeout=TIMEOUT)
        for size in (scene.limits[0] + 1, 40 * scene.limits[0]):
            scene.heard((await code_of(channel.stream_unary(METHOD)(iter([bytes(size)]), timeout=TIMEOUT))).name)
    assert [len(message or b"") for _, message in target.received] == [scene.limits[0], 0, 0]


@plays("gRPC: messages being received")
async def play_received_messages(scene: Scene) -> None:
    most, each = scene.limits
    async with called(scene, most // each + 1) as (target, channels, nodes):
        calls = [
            channel.stream_unary(METHOD)(never(), timeout=TIMEOUT) for channel in channels[:-1] for _ in range(each)
        ]
        await eventually(lambda: len(target.transport._requests._reading) == most)
        again = grpc_channel(nodes[0], target)
        scene.heard((await code_of(again.stream_unary(METHOD)(never(), timeout=TIMEOUT))).name)
        await again.close()
        assert await channels[-1].stream_unary(METHOD)(iter([b"hello"]), timeout=TIMEOUT)
        await eventually(lambda: any(call.done() for call in calls))
        (given_up,) = [call for call in calls if call.done()]
        scene.heard((await code_of(given_up)).name)
        for call in calls:
            call.cancel()


def grpc_channel(node: Node, target: Node) -> grpc.aio.Channel:
    """Return another connection of a device."""
    options = [("grpc.ssl_target_name_override", target.identity.dns_name), ("grpc.use_local_subchannel_pool", 1)]
    return grpc.aio.secure_channel(f"127.0.0.1:{target.port}", node.transport._credentials, options)


@plays("gRPC: a call that is not read yet")
async def play_unread_call(scene: Scene) -> None:
    """Send a call that the device does not read; it must grant no more than the first window."""

    async def hold(_: str, message: Any) -> bytes:
        try:
            await asyncio.Event().wait()
        finally:
            message.close()
        return b""

    async with called(scene, 1) as (target, _, (node,)):
        scene.patch.setattr(target.transport._requests, "read", hold)
        granted = await asyncio.to_thread(granted_window, node.identity, target, scene.directory)
    assert granted <= scene.limits[0]


def granted_window(member: Identity, target: Node, directory: Path) -> int:
    """Fill most of a call's window, and return the bytes that the device lets this call send in all."""
    files = {"ca": member.ca_pem, "cert": member.tls_cert_pem, "key": member.tls_key_pem}
    for name, content in files.items():
        (directory / name).write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(directory / "ca")
    context.load_cert_chain(directory / "cert", directory / "key")
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    granted, received = 2**16 - 1, b""
    with context.wrap_socket(socket.create_connection(("127.0.0.1", target.port), TIMEOUT)) as link:
        link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + request(1))
        body = b"\0" + struct.pack(">I", 2**18 - 100) + bytes(2**15)
        link.sendall(b"".join(frame(0, 0, 1, body[start : start + 2**14]) for start in range(0, len(body), 2**14)))
        link.sendall(frame(6, 0, 0, b"all sent"))
        while True:
            received += link.recv(2**16)
            while len(received) >= 9 and len(received) >= 9 + (length := int.from_bytes(received[:3], "big")):
                kind, flags, stream = received[3], received[4], int.from_bytes(received[5:9], "big")
                payload, received = received[9 : 9 + length], received[9 + length :]
                if kind == 4 and not flags & 1:
                    link.sendall(frame(4, 1, 0, b""))
                    settings = dict(struct.iter_unpack(">HI", payload))
                    granted = settings.get(4, granted)
                elif kind == 8 and stream == 1:
                    granted += int.from_bytes(payload, "big")
                elif kind == 6 and payload == b"all sent":
                    return granted


@plays("gRPC: headers of a call")
async def play_headers(scene: Scene) -> None:
    async with called(scene, 1) as (target, (channel,), _):
        call = channel.stream_unary(METHOD)
        assert await call(iter([b"m"]), metadata=(("x-pad", "x" * 4000),), timeout=TIMEOUT)
        large = call(iter([b"m"]), metadata=(("x-pad", "x" * scene.limits[0]),), timeout=TIMEOUT)
        scene.heard((await code_of(large)).name)
    assert [message for _, message in target.received if message is not None] == [b"m"]


@plays("gRPC: calls")
async def play_calls(scene: Scene) -> None:
    most, each = scene.limits
    async with called(scene, most // each + 1) as (target, channels, nodes):
        target.open.clear()
        calls = [
            asyncio.ensure_future(node.transport.deliver(node.peer(target), b"slow", TIMEOUT))
            for node in nodes[:-1]
            for _ in range(each)
        ]
        await eventually(lambda: len(target.received) == most)
        scene.heard((await code_of(channels[-1].stream_unary(METHOD)(iter([b"m"]), timeout=TIMEOUT))).name)
        waiting = channels[0].stream_unary(METHOD)(iter([b"m"]), timeout=0.2)
        assert await code_of(waiting) is grpc.StatusCode.DEADLINE_EXCEEDED, "one connection carries no more calls"
        target.open.set()
        assert set(await asyncio.gather(*calls)) == {b"answer to slow"}


@plays("gRPC: connections")
async def play_connections(scene: Scene) -> None:
    _, each, strangers, _ = scene.limits
    async with called(scene, 1) as (target, _, (node,)):
        links = [await asyncio.open_connection("127.0.0.1", target.port) for _ in range(strangers)]
        await eventually(lambda: target.transport._front.accepted == strangers)
        links.append(await asyncio.open_connection("127.0.0.1", target.port))
        async with asyncio.timeout(TIMEOUT):
            assert await links[0][0].read() == b"", "the oldest is closed"
        assert not links[1][0].at_eof()
        for _, writer in links:
            writer.close()
        channels = [grpc_channel(node, target) for _ in range(each + 1)]
        for channel in channels:
            assert await channel.stream_unary(METHOD)(iter([b"m"]), timeout=TIMEOUT)
        front = target.transport._front
        await eventually(lambda: sum(link.device is not None for link in front._connections.values()) == each)
        await asyncio.gather(*(channel.close() for channel in channels))
    scene.heard("the oldest is closed")


@plays("gRPC: an answer to this device")
async def play_answers(scene: Scene) -> None:
    size, most = scene.limits
    one, other = Node(scene.enrol()), Node(scene.enrol())

    async def answer(sender: str, message: bytes | None) -> bytes:
        return bytes(int(message or b"0"))

    other.receive = answer  # type: ignore[method-assign]
    async with listening(one, other):
        assert len(await one.transport.deliver(one.peer(other), str(size).encode(), TIMEOUT)) == size
        await one.failure(one.peer(other), str(size + 1).encode())
        reads = [
            asyncio.ensure_future(one.transport._answers.read(f"peer {number}", asyncio.Event().wait()))
            for number in range(most)
        ]
        await let_others_run()
        assert not any(read.done() for read in reads)
        reads.append(asyncio.ensure_future(one.transport._answers.read("peer", asyncio.Event().wait())))
        with pytest.raises(ReadDisplaced):
            await reads[0]
        for read in reads:
            read.cancel()
    scene.heard("cancelled")


@plays("messages in parts")
async def play_parts(scene: Scene) -> None:
    size, most = scene.limits

    async def answer(sender: str, message: bytes | None) -> bytes:
        return b"whole"

    carrier = MultiTransport([])
    await carrier.start(answer)
    split = SplitMessage(bytes(2000), 1000)
    for number in range(most + 1):
        await carrier._handle_received(f"d{number}", split.part(0))
    receipt = await carrier._handle_received("d0", split.part(1))
    assert PartReceipt.FromString(receipt).next == 0
    scene.heard("a receipt that asks for the first part again")
    assert await carrier._handle_received("d2", split.part(1)) == b"whole"
    pieces = [Part(message=bytes(32), index=index, count=3, piece=bytes(size // 2)) for index in range(3)]
    for piece in pieces[:2]:
        await carrier._handle_received("large", piece.SerializeToString())
    with pytest.raises(MessageRefused) as caught:
        await carrier._handle_received("large", pieces[2].SerializeToString())
    scene.heard(caught.value.reason)
    carrier._reassembly.clear()


async def post(scene: Scene) -> Post:
    use_mailboxes(scene.patch)
    return await Post(scene.enrol()).start()


@plays("MQTT: a message, and a packet")
async def play_mqtt_sizes(scene: Scene) -> None:
    message, most = scene.limits
    with HostileBroker() as broker:
        async with devices("mqtt", scene.fleet, scene.directory, lambda: broker.port) as made:
            one, other = await made.pair()
            await one.ask(other, b"hello")
            before = broker.connections
            broker.send(one.identity.node_id, packet(3, bytes(most + 1), 2))
            await eventually(lambda: broker.connections > before)
            assert await one.ask(other, b"hello") == b"olleh"
    scene.heard("the connection to the broker is closed and opened again")
    a, b = [await post(scene) for _ in "ab"]
    await exchange(a, b, bytes(message))
    await exchange(a, b, bytes(message + 1))
    assert [received for _, received in b.received] == [bytes(message), None]
    b.receive_frame(inbox(b, a), bytes(message + 2**14))
    scene.heard(*b.take_refusals())


@plays("MQTT: frames of one sender")
async def play_frames(scene: Scene) -> None:
    here, flooder = [await post(scene) for _ in range(2)]
    await exchange(flooder, here, b"hello")
    quota = Quota(10.0)
    here.transport._charge_frame, here.transport._note_refused_frame = quota.charge_frame, quota.note_refused_frame
    every = inbox(here, flooder).rpartition("/")[0] + "/+"
    while not here.transport.listener().flooding:
        here.receive_frame(inbox(here, flooder), b"\xff" * 200)
    here.take_refusals()
    here.receive_frame(inbox(here, flooder), b"\xff" * 200)
    assert here.take_refusals() == {}
    await eventually(lambda: not {every, inbox(here, flooder)} & here.box.topics)
    scene.heard("nothing: they are dropped unread, and its topic is left")


@plays("MQTT: messages that wait")
async def play_waiting_messages(scene: Scene) -> None:
    unacknowledged, received = scene.limits
    client = new_client(BrokerAddress("127.0.0.1", 1, "main"), "device", ("topic", b""), 1)
    assert client._properties is not None
    assert vars(client._properties)["ReceiveMaximum"] == unacknowledged
    message = SimpleNamespace(topic="t", payload=b"", qos=1, retain=False, mid=1, properties=None)
    for _ in range(received + 10):
        client._on_message(client._client, None, cast(Any, message))
    assert client._queue.qsize() == received
    scene.heard("nothing")


@plays("MQTT: requests in progress")
async def play_requests(scene: Scene) -> None:
    most, each, answers = scene.limits
    here, published = await post(scene), asyncio.Event()
    senders = [await post(scene) for _ in range(most // each + 1)]
    for sender in senders:
        await exchange(sender, here, b"hello")
    here.received.clear()
    here.open.clear()
    publish = here.box.publish

    async def publish_late(*words: Any, **options: Any) -> None:
        await published.wait()
        await publish(*words, **options)

    scene.patch.setattr(here.box, "publish", publish_late)
    deliveries = []
    for number in range(answers + 1):
        delivery, sent = await send_and_wait(senders[number % len(senders)], here, b"%d" % number)
        here.receive_frame(*sent)
        deliveries.append(delivery)
    await let_others_run()
    assert len(here.received) == most
    assert max(sum(sender.id == name for name, _ in here.received) for sender in senders) <= each
    assert len(here.transport._answering) == answers, "the last one gets nothing"
    published.set()
    (topic, frame_), *_ = await here.take_frames(1)
    busy = next(sender for sender in senders if topic == inbox(sender, here))
    busy.receive_frame(topic, frame_)
    await eventually(lambda: any(delivery.done() for delivery in deliveries))
    (done,) = [delivery for delivery in deliveries if delivery.done()]
    scene.heard(done.exception().cause)  # type: ignore[union-attr]
    scene.heard("nothing")
    for delivery in deliveries:
        delivery.cancel()


@plays("the feed: a message of the home's broker")
async def play_home_message(scene: Scene) -> None:
    size, waiting = scene.limits
    dropped: list[None] = []
    with HostileBroker() as broker:
        settings = BrokerSettings("127.0.0.1", broker.port, None, None, None, False, "feed")
        async with open_session(settings, ["meter"], None, lambda: dropped.append(None)) as session:
            await asyncio.to_thread(broker.inject, Message("meter", bytes(4 * size)))
            async with asyncio.timeout(TIMEOUT):
                _, payload, _ = await anext(session.messages())
            assert len(payload) < size
            await asyncio.to_thread(broker.inject, *[Message("meter", b"x")] * (waiting + 2))
            await eventually(lambda: len(dropped) == 2)
            assert session.unread_count == waiting
    scene.heard("nothing: the rest of it, or the oldest message, is dropped")


@plays("the vault's socket")
async def play_vault(scene: Scene) -> None:
    (waiting,) = scene.limits
    await asyncio.to_thread(play_vault_admission, scene.directory / "vault.sock", waiting)
    scene.heard("its connection is closed")


def play_vault_admission(path: Path, waiting: int) -> None:
    """Let one connection more than the limit wait for a vault that is busy."""
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as stack:
        listener.bind(str(path))
        listener.listen(waiting)
        admission = Admission(listener, os.getuid(), lambda *_: None, lambda error: None)
        stack.enter_context(admission.open())
        links = []
        for _ in range(waiting + 1):
            link = stack.enter_context(socket.socket(socket.AF_UNIX))
            link.settimeout(TIMEOUT)
            link.connect(str(path))
            links.append(link)
        assert links[-1].recv(1) == b""
        assert len(admission._waiting) == waiting


async def play_requests_at(path: Path, connections: int, size: int) -> bytes:
    """Send a request that is too long, and then open one connection too many; return the answer to the request."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"x" * size + b"\n")
    with suppress(ConnectionError):
        await writer.drain()
    async with asyncio.timeout(TIMEOUT):
        answer = await reader.readline()
    writer.close()
    links = [await asyncio.open_unix_connection(path) for _ in range(connections + 1)]
    async with asyncio.timeout(TIMEOUT):
        assert await links[0][0].read() == b"", "the oldest is closed"
    assert not links[1][0].at_eof()
    for _, silent in links:
        silent.close()
    return answer


@asynccontextmanager
async def control(scene: Scene) -> AsyncIterator[tuple[Path, Path]]:
    """The control socket and the readers' socket of an agent."""
    owner, readers = scene.directory / "agent.sock", scene.directory / "readers.sock"
    server = ControlServer(owner, cast(ControlTarget, SimpleNamespace(status=dict)), readers)
    await server.start()
    yield owner, readers
    await server.stop()


@plays("the control socket, of the agent's own user")
async def play_control(scene: Scene) -> None:
    connections, size = scene.limits
    async with control(scene) as (owner, _):
        assert str(size) in (await play_requests_at(owner, connections, size)).decode()
    scene.heard("an error that states the limit, or its connection is closed")


@plays("the readers' socket")
async def play_readers(scene: Scene) -> None:
    connections, size = scene.limits
    async with control(scene) as (_, readers):
        assert str(size) in (await play_requests_at(readers, connections, size)).decode()
    scene.heard("the same")


@plays("metrics and health")
async def play_metrics(scene: Scene) -> None:
    connections, size = scene.limits

    async def make_page() -> Any:
        return text_page(200, "well")

    server, port = PageServer({"/page": make_page}), free_port()
    await server.start("127.0.0.1", port)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /page HTTP/1.1\r\n" + b"x" * size)
    async with asyncio.timeout(TIMEOUT):
        scene.heard((await reader.readline()).split()[1].decode())
    writer.close()
    links = [await asyncio.open_connection("127.0.0.1", port) for _ in range(connections + 1)]
    async with asyncio.timeout(TIMEOUT):
        assert await links[0][0].read() == b""
    for _, silent in links:
        silent.close()
    await server.stop()
    scene.heard("its connection is closed")
