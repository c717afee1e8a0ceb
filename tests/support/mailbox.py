"""MQTT transports without a broker: the test carries messages between devices, or drops them."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from sottovoce.fleet import Identity, Trust
from sottovoce.net.transports import Peer
from sottovoce.net.transports.mqtt import Broker, MqttTransport, transport
from sottovoce.net.wire.v1.mqtt_pb2 import Frame
from sottovoce.node.waits import Waits

from tests.support.waiting import let_others_run


class Mailbox:
    """Stand-in for a transport's connection.

    Attributes:
        sent: topic, payload and retain flag of each published message.
        topics: subscribed topics.
        failure: exception raised instead of publishing.
    """

    def __init__(
        self,
        broker: Broker,
        identifier: str,
        *,
        farewell: Callable[[], tuple[str, bytes]],
        on_connect: Callable[[], Awaitable[None]],
        on_message: Callable[[str, bytes], None],
        on_loss: Callable[[], None],
        waiting: object,
    ) -> None:
        self.sent: list[tuple[str, bytes, bool]] = []
        self.topics: set[str] = set()
        self.failure: Exception | None = None
        self.is_up = True
        self.problem = "nothing"
        self.duplicates = 0
        self.farewell, self.on_connect, self.on_message, self.on_loss = farewell, on_connect, on_message, on_loss
        self._closing = asyncio.Event()

    async def run(self) -> None:
        await self._closing.wait()

    def close(self) -> None:
        self._closing.set()

    async def publish(self, topic: str, payload: bytes, *, expires: float, retain: bool = False) -> None:
        if self.failure is not None:
            raise self.failure
        self.sent.append((topic, payload, retain))

    async def subscribe(self, topic: str) -> None:
        self.topics.add(topic)

    async def unsubscribe(self, topic: str) -> None:
        self.topics.discard(topic)


class Post:
    """Device whose transport has a mailbox.

    Attributes:
        received: messages handed over by the transport.
        answer: answer given to each message, or exception raised.
        open: event; while it is clear, every message waits.
    """

    def __init__(self, identity: Identity, boots: int = 1) -> None:
        self.identity = identity
        self.trust = Trust(identity)
        self.transport = MqttTransport(
            broker=Broker("127.0.0.1", 1, "main"), trust=self.trust, incarnation=boots, waiting=Waits()
        )
        self.received: list[tuple[str, bytes | None]] = []
        self.answer: bytes | Exception = b"answer"
        self.open = asyncio.Event()
        self.open.set()

    async def start(self) -> "Post":
        await self.transport.start(self.receive)
        return self

    @property
    def id(self) -> str:
        return self.identity.node_id

    @property
    def peer(self) -> Peer:
        return Peer(self.id, "mqtt:main", self.identity.dns_name)

    @property
    def box(self) -> Mailbox:
        box = self.transport.connection
        assert isinstance(box, Mailbox)
        return box

    async def receive(self, sender: str, message: bytes | None) -> bytes:
        self.received.append((sender, message))
        await self.open.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def receive_frame(self, topic: str, payload: bytes) -> None:
        """Hand the transport a message as if it came from the broker."""
        self.box.on_message(topic, payload)

    def introduce(self, other: "Post") -> None:
        """Hand the transport the current introduction of another device."""
        self.receive_frame(
            f"sottovoce/v1/{other.identity.fleet}/peer/{other.id}", other.transport._presence.presence_announcement()
        )

    async def take_frames(self, count: int) -> list[tuple[str, bytes]]:
        """Wait for the next frames that the device sends, and empty its mailbox."""
        async with asyncio.timeout(20):
            while True:
                results = [(topic, payload) for topic, payload, retain in self.box.sent if not retain]
                if len(results) >= count:
                    self.box.sent.clear()
                    return results
                await let_others_run()

    def take_refusals(self) -> dict[str, int]:
        """Return the refusals since the last call."""
        refused = dict(self.transport.refused)
        self.transport.refused.clear()
        return refused


def use_mailboxes(patch: pytest.MonkeyPatch) -> None:
    """Give mailboxes to the transports that start from now on."""
    patch.setattr(transport, "Connection", Mailbox)


async def send_and_wait(sender: Post, recipient: Post, message: bytes) -> tuple[asyncio.Task[bytes], tuple[str, bytes]]:
    """Send a message once its recipient is introduced; return the task that waits for the answer, and the frame."""
    delivery = asyncio.create_task(sender.transport.deliver(recipient.peer, message, 20))
    await let_others_run()
    sender.introduce(recipient)
    (request,) = await sender.take_frames(1)
    return delivery, request


async def exchange(sender: Post, recipient: Post, message: bytes) -> list[tuple[str, bytes]]:
    """Carry one message and its answer honestly; return both frames."""
    delivery, request = await send_and_wait(sender, recipient, message)
    recipient.receive_frame(*request)
    (answer,) = await recipient.take_frames(1)
    sender.receive_frame(*answer)
    await delivery
    return [request, answer]


def alter_frame(raw: bytes, **fields: object) -> bytes:
    frame = Frame.FromString(raw)
    for name, value in fields.items():
        setattr(frame, name, value)
    return frame.SerializeToString(deterministic=True)


def inbox(recipient: Post, sender: Post) -> str:
    return f"sottovoce/v1/{recipient.identity.fleet}/in/{recipient.id}/{sender.id}"


NewDevice = Callable[..., Awaitable[Post]]
