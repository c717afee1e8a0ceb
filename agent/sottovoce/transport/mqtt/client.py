"""Client of a broker, through aiomqtt and paho, with bounds on the memory and time that a broker can cost."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiomqtt import Client, MqttError, ProtocolVersion, Will
from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

QOS = 1
CONNECT_SECONDS = 10.0
_QUEUE = 256  # received but unprocessed messages; further ones are lost, and their senders retry
_INFLIGHT = 20
_RECEIVE_MAXIMUM = 16
_LARGEST_PACKET = 2**18  # this device sends at most half of this number
_MAX_REPLIES = 4096  # packets that the broker does not read, most of them acknowledgements
_KEEPALIVE_SECONDS = 30
_SESSION_SECONDS = 86_400
_WILL_DELAY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Broker:
    """Address of a broker, and its protocol.

    Attributes:
        host: name or address.
        port: port of the broker.
        realm: public name of the broker.
        version: `5` or `3.1.1`.
        tls: makes the TLS context for one connection, with this device's certificate of the moment; None without TLS.
        username: user name, if the broker requires one.
        password: password of that user.
        longest_pause: longest pause before connecting again, in seconds, if a minute is too long.
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
        """Return the properties of MQTT 5; None for 3.1.1."""
        if not self.uses_mqtt5:
            return None
        properties = Properties(packet)  # type: ignore[no-untyped-call]
        for name, value in values.items():
            setattr(properties, name, value)
        return properties


class OneConnection(Client):
    """Client whose connection can be closed in any state."""

    _opening = False
    _hung_up = False

    def hang_up(self) -> None:
        """Close the socket; otherwise, after a packet that it cannot read, the client would retry for ever.

        A socket that a thread is just opening is closed as soon as it is open.
        """
        self._hung_up = True
        if not self._opening:
            self._client._sock_close()

    def _client_connect(self) -> None:
        """Connect, in a thread that nothing interrupts."""
        self._opening = True
        try:
            super()._client_connect()
        finally:
            self._loop.call_soon_threadsafe(self._opened)

    def _opened(self) -> None:
        """Continue in the event loop, which has begun to watch the socket."""
        self._opening = False
        if self._hung_up:
            self._client._sock_close()


def new_client(broker: Broker, identifier: str, will: tuple[str, bytes], will_seconds: int) -> OneConnection:
    """Return a client for one connection.

    Args:
        broker: broker to connect to.
        identifier: identifier of the client, the same at each start: the broker keeps its messages for it.
        will: topic, and the payload that the broker keeps there when the connection breaks.
        will_seconds: seconds for which the broker keeps that payload.
    """
    five = broker.uses_mqtt5
    delayed = {"WillDelayInterval": _WILL_DELAY_SECONDS, "MessageExpiryInterval": will_seconds}
    kept = {
        "SessionExpiryInterval": _SESSION_SECONDS,
        "ReceiveMaximum": _RECEIVE_MAXIMUM,
        "MaximumPacketSize": _LARGEST_PACKET,
    }
    client = OneConnection(
        broker.host,
        broker.port,
        username=broker.username,
        password=broker.password,
        identifier=identifier,
        protocol=ProtocolVersion.V5 if five else ProtocolVersion.V311,
        clean_session=None if five else False,
        clean_start=False if five else MQTT_CLEAN_START_FIRST_ONLY,
        properties=broker.properties(PacketTypes.CONNECT, **kept),
        will=Will(*will, QOS, True, broker.properties(PacketTypes.WILLMESSAGE, **delayed)),
        keepalive=_KEEPALIVE_SECONDS,
        timeout=CONNECT_SECONDS,
        max_queued_incoming_messages=_QUEUE,
        max_queued_outgoing_messages=_QUEUE,
        max_inflight_messages=_INFLIGHT,
        tls_context=None if broker.tls is None else broker.tls(),
    )
    _limit_broker(client)
    _watch_open_sockets_alone(client)
    return client


def _watch_open_sockets_alone(client: Client) -> None:
    """Register a socket with the event loop only while it is open.

    aiomqtt registers the descriptor in the loop's next turn; by then the broker may be gone, and the descriptor reused.
    """

    def registered(paho: Any, userdata: Any, sock: Any) -> None:
        def write() -> None:
            try:
                paho.loop_write()
            except Exception as error:  # noqa: BLE001 - as aiomqtt's own: callers that wait for the connection get it
                if not client._disconnected.done():
                    client._disconnected.set_exception(error)

        def watch() -> None:
            if sock.fileno() >= 0:
                client._loop.add_writer(sock.fileno(), write)

        client._loop.call_soon_threadsafe(watch)

    client._client.on_socket_register_write = registered


def _limit_broker(client: Client) -> None:
    """End the connection to a broker that sends more than devices do, or does not read.

    paho accepts packets of 256 MiB, keeps messages of QoS 2 until they are released, and acknowledges without limit.
    """
    paho = client._client
    receive = paho._sock_recv

    def received(count: int) -> bytes:
        if count > _LARGEST_PACKET:
            raise MqttError(f"it sends a packet of over {_LARGEST_PACKET} bytes")
        if paho._in_messages:
            raise MqttError("it sends with a quality of service that was not asked for")
        if len(paho._out_packet) > _MAX_REPLIES:
            raise MqttError("it does not read")
        return receive(count)

    paho._sock_recv = received  # type: ignore[assignment, method-assign]
