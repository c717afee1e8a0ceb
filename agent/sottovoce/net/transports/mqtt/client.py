"""MQTT client based on aiomqtt and paho that limits how much memory and time a broker can cost the device."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiomqtt import Client, MqttError, ProtocolVersion, Topic, Will
from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY, MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

QOS = 1
CONNECT_SECONDS = 10.0
_MAX_QUEUED_MESSAGES = 256  # received before the device listens; further messages are dropped, and their senders retry
_INFLIGHT = 20
_RECEIVE_MAXIMUM = 16
_MAX_PACKET_BYTES = 2**18  # devices send messages of at most half this size
_MAX_REPLIES = 4096  # maximum number of outgoing packets, mostly acknowledgements, that the broker has not read
_KEEPALIVE_SECONDS = 30
_SESSION_SECONDS = 86_400
_WILL_DELAY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker's address, protocol and credentials.

    Attributes:
        host: the broker's host name or address.
        port: the broker's port.
        realm: the broker's public name.
        version: the protocol version, `5` or `3.1.1`.
        tls: function that creates the TLS context for one connection, with this device's current certificate; None to
            connect without TLS.
        username: user name, if the broker requires one.
        password: that user's password.
        longest_pause: upper limit on the pause before reconnecting, in seconds.
    """

    host: str
    port: int
    realm: str
    version: str = "5"
    tls: Callable[[], ssl.SSLContext] | None = None
    username: str | None = None
    password: str | None = None
    longest_pause: float = float("inf")

    @property
    def uses_mqtt5(self) -> bool:
        """Whether the broker uses MQTT 5."""
        return self.version == "5"

    def properties(self, packet: int, **values: Any) -> Properties | None:
        """Return the MQTT 5 properties for a packet, or None for MQTT 3.1.1."""
        if not self.uses_mqtt5:
            return None
        properties = Properties(packet)  # type: ignore[no-untyped-call]
        for name, value in values.items():
            setattr(properties, name, value)
        return properties


class ClosableClient(Client):
    """A client whose connection can be closed in any state, and that hands over each message as it arrives.

    aiomqtt queues a few hundred messages and drops all others, so a flood would displace the messages of honest senders
    before anything has read whose they are.

    Attributes:
        on_message: called with the topic and payload of each message; None queues them in `messages`.
    """

    on_message: Callable[[str, bytes], None] | None = None
    _opening = False
    _hung_up = False

    def force_close(self) -> None:
        """Close the socket, because the client would otherwise retry forever after a packet that it cannot decode.

        If a thread is currently opening the socket, the socket is closed as soon as it is open.
        """
        self._hung_up = True
        if not self._opening:
            self._client._sock_close()

    def _on_message(self, client: Any, userdata: Any, message: MQTTMessage) -> None:
        if self.on_message is None:
            super()._on_message(client, userdata, message)
        else:
            self.on_message(Topic(message.topic).value, bytes(message.payload))

    def _client_connect(self) -> None:
        """Connect; this runs in a thread that cannot be cancelled."""
        self._opening = True
        try:
            super()._client_connect()
        finally:
            self._loop.call_soon_threadsafe(self._note_opened)

    def _note_opened(self) -> None:
        """Record, on the event loop, that the socket is open; close it if `force_close` was called in the meantime."""
        self._opening = False
        if self._hung_up:
            self._client._sock_close()


def new_client(broker: Broker, identifier: str, will: tuple[str, bytes], will_seconds: int) -> ClosableClient:
    """Return a client for one connection.

    Args:
        broker: the broker to connect to.
        identifier: the client identifier, which must be the same after every start, because the broker stores queued
            messages under it.
        will: topic and payload of the retained message that the broker publishes if the connection breaks.
        will_seconds: seconds for which the broker retains that message.
    """
    mqtt5 = broker.uses_mqtt5
    delayed = {"WillDelayInterval": _WILL_DELAY_SECONDS, "MessageExpiryInterval": will_seconds}
    session = {
        "SessionExpiryInterval": _SESSION_SECONDS,
        "ReceiveMaximum": _RECEIVE_MAXIMUM,
        "MaximumPacketSize": _MAX_PACKET_BYTES,
    }
    client = ClosableClient(
        broker.host,
        broker.port,
        username=broker.username,
        password=broker.password,
        identifier=identifier,
        protocol=ProtocolVersion.V5 if mqtt5 else ProtocolVersion.V311,
        clean_session=None if mqtt5 else False,
        clean_start=False if mqtt5 else MQTT_CLEAN_START_FIRST_ONLY,
        properties=broker.properties(PacketTypes.CONNECT, **session),
        will=Will(*will, QOS, True, broker.properties(PacketTypes.WILLMESSAGE, **delayed)),
        keepalive=_KEEPALIVE_SECONDS,
        timeout=CONNECT_SECONDS,
        max_queued_incoming_messages=_MAX_QUEUED_MESSAGES,
        max_queued_outgoing_messages=_MAX_QUEUED_MESSAGES,
        max_inflight_messages=_INFLIGHT,
        tls_context=None if broker.tls is None else broker.tls(),
    )
    _limit_incoming_data(client)
    _skip_closed_sockets(client)
    return client


def _skip_closed_sockets(client: Client) -> None:
    """Register a socket with the event loop only if it is still open.

    aiomqtt registers the file descriptor in the loop's next iteration. By then, the connection may be closed and the
    descriptor reused.
    """

    def register(paho: Any, userdata: Any, sock: Any) -> None:
        def write() -> None:
            try:
                paho.loop_write()
            except Exception as error:  # noqa: BLE001 - as in aiomqtt: callers waiting on the connection get the error
                if not client._disconnected.done():
                    client._disconnected.set_exception(error)

        def watch() -> None:
            if sock.fileno() >= 0:
                client._loop.add_writer(sock.fileno(), write)

        client._loop.call_soon_threadsafe(watch)

    client._client.on_socket_register_write = register


def _limit_incoming_data(client: Client) -> None:
    """Make the client disconnect from a broker that sends too much or does not read.

    By default, paho accepts packets of 256 MiB, stores QoS 2 messages until they are released, and queues any number of
    acknowledgements.
    """
    paho = client._client
    receive = paho._sock_recv

    def limited_receive(count: int) -> bytes:
        if count > _MAX_PACKET_BYTES:
            raise MqttError(f"the broker sent a packet of more than {_MAX_PACKET_BYTES} bytes")
        if paho._in_messages:
            raise MqttError("the broker sent a message with a quality of service that was not requested")
        if len(paho._out_packet) > _MAX_REPLIES:
            raise MqttError("the broker is not reading the data that this device sends")
        return receive(count)

    paho._sock_recv = limited_receive  # type: ignore[assignment, method-assign]
