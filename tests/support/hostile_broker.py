"""A broker that a test controls: it can read every message, and deliver any message to any device.

By default it is honest, and supports as much of MQTT 5 and 3.1.1 as the devices use. It runs on a thread of its own.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Self

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK = 1, 2, 3, 4, 8, 9
UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = 10, 11, 12, 13, 14


@dataclass(frozen=True, slots=True)
class Message:
    """Message as published by a device, or as changed by the broker.

    Attributes:
        topic: topic of the message.
        payload: bytes of the payload.
        retain: whether the broker keeps the message for later subscribers.
        after: delay of the delivery, in seconds.
    """

    topic: str
    payload: bytes
    retain: bool = False
    after: float = 0.0


Judge = Callable[[Message], Iterable[Message]]
"""Maps a published message to the messages that the broker delivers."""


def honest(message: Message) -> Iterable[Message]:
    """Deliver a message as it was published."""
    return (message,)


@dataclass(eq=False)
class Client:
    """Device that is connected."""

    name: str
    five: bool
    writer: asyncio.StreamWriter
    will: Message | None
    topics: set[str] = field(default_factory=set)
    packets: int = 0

    def send(self, raw: bytes) -> None:
        if not self.writer.is_closing():
            self.writer.write(raw)

    def deliver(self, message: Message, quality: int = 1) -> None:
        self.send(self.publication(message, quality))

    def publication(self, message: Message, quality: int = 1) -> bytes:
        self.packets = self.packets % 65_535 + 1
        topic = message.topic.encode(errors="surrogateescape")
        number = self.packets.to_bytes(2, "big") if quality else b""
        body = len(topic).to_bytes(2, "big") + topic + number + (b"\0" if self.five else b"") + message.payload
        return packet(PUBLISH, body, quality << 1 | message.retain)


class HostileBroker:
    """Broker as a context manager: it listens inside the `with`.

    Attributes:
        judge: function that decides the fate of each message; called on the broker's thread.
        captured: all published messages, wills included, in order.
        retained: messages that the broker keeps, by topic.
        clients: connected clients, by client id.
        connections: number of connections so far.
        acknowledges: whether the broker acknowledges devices' messages.
        port: port of 127.0.0.1 on which the broker listens.
    """

    def __init__(self, judge: Judge = honest) -> None:
        self.judge = judge
        self.captured: list[Message] = []
        self.retained: dict[str, Message] = {}
        self.clients: dict[str, Client] = {}
        self.connections = 0
        self.acknowledges = True
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", 0)).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._end()).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def open(self) -> int:
        """Number of sockets that are open to the broker."""
        return len(self._serving)

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def inject(self, *messages: Message) -> None:
        """Deliver messages as if a device had published them; return once they have been sent."""

        async def inject() -> None:
            for message in messages:
                self._deliver(message)

        self._do(inject()).result(10)

    def send(self, name: str, raw: bytes) -> None:
        """Send a connected device these bytes, MQTT or not."""

        async def send() -> None:
            self.clients[name].send(raw)

        self._do(send()).result(10)

    def drop(self, name: str) -> None:
        """Abort the connection to a device without notice."""

        async def drop() -> None:
            self.clients[name].writer.transport.abort()

        self._do(drop()).result(10)

    def on(self, topic: str) -> list[Message]:
        """Return the messages published on a topic, in order."""
        return [message for message in list(self.captured) if message.topic == topic]

    def _do(self, work: Coroutine[Any, Any, Any]) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _end(self) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        client = None
        try:
            _, _, body = await _packet(reader)
            client = self._admit(body, writer)
            while True:
                kind, flags, body = await _packet(reader)
                if kind == DISCONNECT:
                    client.will = None
                    break
                self._handle(client, kind, flags, body)
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        finally:
            self._serving.discard(task)
            writer.transport.abort()
            if client is not None and self.clients.get(client.name) is client:
                del self.clients[client.name]
                if client.will is not None:
                    self._publish(client.will)

    def _admit(self, body: bytes, writer: asyncio.StreamWriter) -> Client:
        self.connections += 1
        five, flags, cursor = body[6] == 5, body[7], _Cursor(body, 10)
        cursor.properties(five)
        name, will = cursor.text(), None
        if flags & 4:
            cursor.properties(five)
            will = Message(cursor.text(), cursor.block(), bool(flags & 0x20))
        client = Client(name, five, writer, will)
        self.clients[name] = client  # an earlier connection of this name remains as long as the device keeps it open
        client.send(packet(CONNACK, b"\0\0\0" if five else b"\0\0"))
        return client

    def _handle(self, client: Client, kind: int, flags: int, body: bytes) -> None:
        cursor = _Cursor(body)
        match kind:
            case 3:
                topic = cursor.text()
                number = cursor.take(2) if flags & 6 else b""
                cursor.properties(client.five)
                if number and self.acknowledges:
                    client.send(packet(PUBACK, number))
                self._publish(Message(topic, cursor.rest(), bool(flags & 1)))
            case 8:
                number = cursor.take(2)
                cursor.properties(client.five)
                topics = []
                while not cursor.done:
                    topics.append(cursor.text())
                    cursor.take(1)
                client.topics.update(topics)
                stored = (
                    item for item in list(self.retained.values()) if any(matches(topic, item.topic) for topic in topics)
                )
                answer = packet(SUBACK, number + (b"\0" if client.five else b"") + b"\1" * len(topics))
                client.send(b"".join(map(client.publication, stored)) + answer)  # the standard allows this order
            case 10:
                number = cursor.take(2)
                cursor.properties(client.five)
                while not cursor.done:
                    client.topics.discard(cursor.text())
                client.send(packet(UNSUBACK, number + (b"\0\0" if client.five else b"")))
            case 12:
                client.send(packet(PINGRESP, b""))

    def _publish(self, message: Message) -> None:
        self.captured.append(message)
        for made in self.judge(message):
            if made.after:
                self._loop.call_later(made.after, self._deliver, made)
            else:
                self._deliver(made)

    def _deliver(self, message: Message) -> None:
        if message.retain:
            self.retained[message.topic] = message
        for client in list(self.clients.values()):
            if any(matches(wanted, message.topic) for wanted in client.topics):
                client.deliver(replace(message, retain=False))


def matches(wanted: str, topic: str) -> bool:
    """Check whether a topic matches a subscription."""
    pattern_levels, topic_levels = wanted.split("/"), topic.split("/")
    return len(pattern_levels) == len(topic_levels) and all(
        item in ("+", other) for item, other in zip(pattern_levels, topic_levels, strict=True)
    )


def packet(kind: int, body: bytes, flags: int = 0) -> bytes:
    """Encode one MQTT packet."""
    length, remaining = b"", len(body)
    while True:
        remaining, low = remaining >> 7, remaining & 127
        length += bytes([low | (0x80 if remaining else 0)])
        if not remaining:
            return bytes([kind << 4 | flags]) + length + body


async def _packet(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    first = (await reader.readexactly(1))[0]
    length = shift = 0
    while True:
        byte = (await reader.readexactly(1))[0]
        length, shift = length | (byte & 127) << shift, shift + 7
        if byte < 128:
            return first >> 4, first & 15, await reader.readexactly(length)


class _Cursor:
    """Cursor that reads a packet from its beginning."""

    def __init__(self, body: bytes, at: int = 0) -> None:
        self._body = body
        self._at = at

    @property
    def done(self) -> bool:
        return self._at >= len(self._body)

    def take(self, count: int) -> bytes:
        self._at += count
        return self._body[self._at - count : self._at]

    def block(self) -> bytes:
        return self.take(int.from_bytes(self.take(2), "big"))

    def text(self) -> str:
        return self.block().decode()

    def rest(self) -> bytes:
        return self.take(len(self._body) - self._at)

    def properties(self, five: bool) -> None:
        """Skip the properties of a packet; a device's are short."""
        if five:
            self.take(self.take(1)[0])
