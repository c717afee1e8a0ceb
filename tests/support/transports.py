"""Two or more devices over each transport, for one suite that tests the guarantees of all transports."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sottovoce.fleet import Identity, Trust
from sottovoce.net.transports import DeliveryFailed, Peer, Transport
from sottovoce.net.transports.grpc import GrpcTransport
from sottovoce.net.transports.memory import Exchange, MemoryTransport
from sottovoce.net.transports.mqtt import Broker, MqttTransport
from sottovoce.net.transports.multi_transport import MultiTransport
from sottovoce.node.waits import Waits
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.devices import free_port

KINDS = ("memory", "grpc", "mqtt", "mqtt-3.1.1")


@dataclass
class Node:
    """Device that answers a message with its first bytes, reversed.

    Attributes:
        received: senders and messages, in order of arrival.
        answer: exception raised instead of an answer.
        open: event; while it is clear, every message waits.
    """

    identity: Identity
    address: str
    transport: MultiTransport
    inner: Transport
    received: list[tuple[str, bytes | None]] = field(default_factory=list)
    answer: Exception | None = None
    open: asyncio.Event = field(default_factory=asyncio.Event)
    has_new_message: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def peer(self) -> Peer:
        """This device as a peer of others."""
        return Peer(self.identity.node_id, self.address, self.identity.dns_name)

    async def receive(self, sender: str, message: bytes | None) -> bytes:
        """See Receive."""
        self.received.append((sender, message))
        self.has_new_message.set()
        await self.open.wait()
        if self.answer is not None:
            raise self.answer
        return (message or b"")[:64][::-1]

    async def wait_for_message(self, sender: "Node", message: bytes) -> None:
        """Wait until this message has arrived."""
        async with asyncio.timeout(60):
            while (sender.identity.node_id, message) not in self.received:
                self.has_new_message.clear()
                await self.has_new_message.wait()

    async def ask(self, other: "Node", message: bytes, seconds: float = 20.0) -> bytes:
        """Deliver a message, retrying until it succeeds: transports guarantee nothing about one attempt."""
        async with asyncio.timeout(60):
            while True:
                try:
                    return await self.transport.deliver(other.peer, message, seconds)
                except DeliveryFailed as failure:
                    if failure.cause == "refused":
                        raise
                    await asyncio.sleep(0.05)


class Devices:
    """A factory for devices in one fleet that all use the same kind of transport.

    Args:
        kind: one of `KINDS`.
        fleet: fleet of the devices.
        directory: directory for the devices' identities.
        port: port of a broker.
    """

    def __init__(self, kind: str, fleet: Fleet, directory: Path, port: int) -> None:
        self._kind = kind
        self._fleet = fleet
        self._directory = directory
        self._port = port
        self._exchange = Exchange()
        self.made: list[Node] = []
        self.boots = 1

    def identity(self, name: str) -> Identity:
        """Make the identity of a new device of the fleet."""
        return enrol(self._fleet, self._directory / name)

    async def start(self, identity: Identity, address: str | None = None) -> Node:
        """Start a device with this identity."""
        address = address or self._address()
        inner = self._transport(identity, address)
        node = Node(identity, address, MultiTransport([inner]), inner)
        node.open.set()
        await node.transport.start(node.receive)
        self.made.append(node)
        self.boots += 1
        return node

    async def pair(self) -> tuple[Node, Node]:
        """Start two devices."""
        return await self.start(self.identity("a")), await self.start(self.identity("b"))

    def _address(self) -> str:
        return "mqtt:main" if self._kind.startswith("mqtt") else f"127.0.0.1:{free_port()}"

    def _transport(self, identity: Identity, address: str) -> Transport:
        match self._kind:
            case "memory":
                return MemoryTransport(self._exchange, identity.node_id, address)
            case "grpc":
                return make_grpc_transport(identity, address)
            case _:
                version = self._kind.partition("-")[2] or "5"
                return make_mqtt_transport(identity, self._port, self.boots, version)


def make_grpc_transport(identity: Identity, address: str) -> Transport:
    """Return a device's gRPC transport."""
    return GrpcTransport(listen=address, trust=Trust(identity), reconnect=0.2)


def make_mqtt_transport(identity: Identity, port: int, boots: int, version: str = "5") -> MqttTransport:
    """Return a device's MQTT transport, without TLS, to a broker on this host."""
    broker = Broker("127.0.0.1", port, "main", version)
    return MqttTransport(broker=broker, trust=Trust(identity), incarnation=boots, waiting=Waits())


@asynccontextmanager
async def devices(kind: str, fleet: Fleet, directory: Path, broker: Callable[[], int]) -> AsyncIterator[Devices]:
    """Provide a maker of devices, which are stopped at the end."""
    created = Devices(kind, fleet, directory, broker() if kind.startswith("mqtt") else 0)
    try:
        yield created
    finally:
        for node in created.made:
            node.open.set()
        await asyncio.gather(*(node.transport.stop(1.0) for node in created.made))
