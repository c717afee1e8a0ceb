"""Client for the home's MQTT broker, based on aiomqtt: one session at a time, with a bounded queue of messages."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from sottovoce.errors import ConfigError, NetworkError

from sottovoce_home.meters import MAX_PAYLOAD_BYTES

TIMEOUT = 10.0
"""Timeout for connecting to the broker and for each of its answers, in seconds."""

MAX_PACKET_BYTES = MAX_PAYLOAD_BYTES + 4096
"""Bytes that are kept of a packet: one payload and its topic. An MQTT 5 broker delivers no larger packet."""

logging.getLogger("mqtt").addHandler(logging.NullHandler())  # aiomqtt raises what it logs; a command prints only that
_QUEUE = 256
_KEEP_ALIVE = 30
_CHUNK = 65_536
_WRONG_VERSION = 0x84
_REFUSALS = {
    _WRONG_VERSION: "the broker does not support this MQTT version; set feed.version",
    0x85: "the client identifier is not allowed",
    0x86: "wrong user name or password; check feed.username and feed.password_file",
    0x87: "this user may not connect; check feed.username and feed.password_file, or the broker's rules",
    0x8A: "this client is banned; check the broker's access rules",
}
_FIRST_ERROR_CODE = 0x80


class BrokerRefused(NetworkError):
    """Error raised when the broker refuses this client; retrying does not help until the configuration changes."""


class VersionRefused(BrokerRefused):
    """Error raised when the broker does not support the MQTT version."""


class SubscriptionRefused(BrokerRefused):
    """Error raised when the broker accepts this client, but refuses one of its subscriptions."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Settings for the connection to the home's broker.

    Attributes:
        host: host name or address of the broker.
        port: port of the broker.
        tls: TLS context; None for an unencrypted connection.
        username: user name, if the broker requires one.
        password: that user's password.
        mqtt5: whether to use MQTT 5 instead of MQTT 3.1.1.
        identifier: client identifier; it never changes, so the broker ends this client's previous session, if any.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None
    username: str | None
    password: str | None
    mqtt5: bool
    identifier: str


@dataclass(frozen=True, slots=True)
class Will:
    """A message that the broker publishes when this client disconnects.

    Attributes:
        topic: topic to publish to.
        payload: content of the message, which the broker retains.
    """

    topic: str
    payload: str


class Session:
    """One connection to the broker."""

    def __init__(self, client: aiomqtt.Client) -> None:
        self._client = client

    @property
    def unread_count(self) -> int:
        """The number of received messages that have not been read yet."""
        return len(self._client.messages)

    async def subscribe(self, topic_filter: str, qos: int = 1) -> None:
        """Subscribe to a topic filter, with a quality of service.

        Raises:
            SubscriptionRefused: if this user may not read these topics.
            NetworkError: if the connection has ended, or the broker does not answer.
        """
        try:
            granted = await self._client.subscribe(topic_filter, qos=qos)
        except aiomqtt.MqttError as error:
            raise _unreachable_error(error) from error
        if any(_reason_number(code) >= _FIRST_ERROR_CODE for code in granted):
            raise SubscriptionRefused(
                f"this user is not authorised to subscribe to {topic_filter}; check the broker's access rules"
            )

    async def messages(self) -> AsyncIterator[tuple[str, bytes, bool]]:
        """Yield the topic, payload and retained flag of each received message.

        Raises:
            NetworkError: if the connection has ended.
        """
        try:
            async for message in self._client.messages:
                yield message.topic.value, message.payload, message.retain
        except aiomqtt.MqttError as error:
            raise _unreachable_error(error) from error

    async def publish(self, topic: str, payload: str, *, retain: bool, confirmed: bool) -> None:
        """Publish a message.

        Args:
            topic: topic to publish to.
            payload: content of the message.
            retain: whether the broker keeps the message for later subscribers.
            confirmed: whether to wait until the broker has confirmed the message.

        Raises:
            NetworkError: if the connection has ended, or the broker does not confirm the message.
        """
        try:
            await self._client.publish(topic, payload, qos=int(confirmed), retain=retain, timeout=TIMEOUT)
        except aiomqtt.MqttError as error:
            raise _unreachable_error(error) from error


@asynccontextmanager
async def open_session(
    settings: BrokerSettings,
    filters: Sequence[str],
    will: Will | None,
    on_drop: Callable[[], None],
    receive: Callable[[str, bytes, bool], None] | None = None,
) -> AsyncIterator[Session]:
    """Open a session with subscriptions.

    The broker does not store messages while this client is disconnected, because they would be stale.

    Args:
        settings: settings for the connection.
        filters: topic filters to subscribe to.
        will: the will, if there is one.
        on_drop: called whenever the queue is full and its oldest message is dropped.
        receive: called at once with the topic, payload and retained flag of each message, which is then not queued.

    Raises:
        BrokerRefused: if the broker refuses this client or one of its subscriptions.
        NetworkError: if the broker cannot be reached, or does not answer.
    """
    client = aiomqtt.Client(
        settings.host,
        settings.port,
        username=settings.username,
        password=settings.password,
        identifier=settings.identifier,
        protocol=aiomqtt.ProtocolVersion.V5 if settings.mqtt5 else aiomqtt.ProtocolVersion.V311,
        clean_session=None if settings.mqtt5 else True,
        queue_type=_dropping_queue_type(on_drop) if receive is None else _passing_queue_type(receive),
        max_queued_incoming_messages=_QUEUE,
        max_queued_outgoing_messages=_QUEUE,
        keepalive=_KEEP_ALIVE,
        timeout=TIMEOUT,
        tls_context=settings.tls,
        will=None if will is None else aiomqtt.Will(will.topic, will.payload, qos=1, retain=True),
        properties=_connect_properties() if settings.mqtt5 else None,
    )
    _truncate_packets(client)
    try:
        await client.__aenter__()
    except aiomqtt.MqttError as error:
        _raise_refusal(error)
    try:
        session = Session(client)
        for topic_filter in filters:
            await session.subscribe(topic_filter)
        yield session
    finally:
        with suppress(aiomqtt.MqttError):  # the connection is already closed, and the caller has received the error
            await client.__aexit__(None, None, None)


def tls_context(ca: Path | None) -> ssl.SSLContext:
    """Return a TLS context that verifies the broker's certificate and host name.

    Args:
        ca: file with the certificates of trusted issuers; None to trust the system's.

    Raises:
        ConfigError: if that file contains no readable certificate.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"feed.ca: {ca} does not contain a readable certificate; specify a PEM file") from error


def _dropping_queue_type(on_drop: Callable[[], None]) -> type[asyncio.Queue[aiomqtt.Message]]:
    class DroppingOldest(asyncio.Queue[aiomqtt.Message]):
        """A bounded queue that drops its oldest message when it is full."""

        def put_nowait(self, item: aiomqtt.Message) -> None:
            if self.full():
                self.get_nowait()
                on_drop()
            super().put_nowait(item)

    return DroppingOldest


def _truncate_packets(client: aiomqtt.Client) -> None:
    """Make the client keep only the first `MAX_PACKET_BYTES` of a packet, and drop the rest as it arrives.

    A broker with MQTT 3.1.1 knows no limit, and paho keeps packets of up to 256 MiB. To disconnect instead would not
    help: the broker delivers a retained message again after every connection, and the feed would hear no meter.
    """
    paho = client._client
    receive = paho._sock_recv

    def receive_within_limit(count: int) -> bytes:
        packet = paho._in_packet
        if (room := MAX_PACKET_BYTES - len(packet["packet"])) > 0:
            return receive(min(count, room))
        if count > 1:
            dropped = receive(min(count - 1, _CHUNK))
            if not dropped:
                return dropped  # the broker has closed the connection
            packet["to_process"] -= len(dropped)
            if packet["to_process"] > 1:
                raise BlockingIOError  # gives the event loop a turn before the next chunk
        return receive(1)  # paho handles a packet once its last byte has arrived

    paho._sock_recv = receive_within_limit  # type: ignore[assignment, method-assign]


def _passing_queue_type(receive: Callable[[str, bytes, bool], None]) -> type[asyncio.Queue[aiomqtt.Message]]:
    class PassingOn(asyncio.Queue[aiomqtt.Message]):
        """A queue that is always empty, because it passes each message on as it arrives."""

        def put_nowait(self, item: aiomqtt.Message) -> None:
            receive(item.topic.value, item.payload, item.retain)

    return PassingOn


def _connect_properties() -> Properties:
    limits = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    limits.MaximumPacketSize = MAX_PACKET_BYTES
    limits.SessionExpiryInterval = 0
    return limits


def _raise_refusal(error: aiomqtt.MqttError) -> NoReturn:
    if isinstance(error, aiomqtt.MqttCodeError) and (code := _reason_number(error.rc)) in _REFUSALS:
        kind = VersionRefused if code == _WRONG_VERSION else BrokerRefused
        raise kind(f"the broker refused the connection: {_REFUSALS[code]}") from error
    raise _unreachable_error(error) from error


def _reason_number(code: int | ReasonCode | None) -> int:
    """Return an MQTT 5 or MQTT 3.1.1 reason code as a number."""
    return code.value if isinstance(code, ReasonCode) else code or 0


def _unreachable_error(error: aiomqtt.MqttError) -> NetworkError:
    return NetworkError(f"cannot reach the broker ({error})")
