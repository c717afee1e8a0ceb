"""A trial of the connection to the home's broker, which finds why a feed would not hear its meters."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from sottovoce.doctor.network import find_connection_error, run_with_deadline
from sottovoce.errors import NetworkError

from sottovoce_home.broker import BrokerRefused, BrokerSettings, SubscriptionRefused, VersionRefused, open_session

_SESSION_SECONDS = 4.0
_PROBE_SECONDS = 2.0
_CONNECT = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x0a\x00\x00"  # MQTT 3.1.1, without a name or credentials
_CONNACK = 0x20


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason for which the feed would not hear its meters.

    Attributes:
        what: the reason.
        remedy: action of the owner.
    """

    what: str
    remedy: str


def find_obstacle(settings: BrokerSettings, filters: Sequence[str]) -> Obstacle | None:
    """Connect as the feed does, subscribe to its topics and disconnect; return what prevents it, within 20 seconds.

    Args:
        settings: settings for the connection, with a client identifier of its own.
        filters: topic filters to subscribe to.
    """
    host, port, tls = settings.host, settings.port, settings.tls
    if (error := run_with_deadline({0: partial(find_connection_error, host, port, tls)})[0]) is not None:
        if tls is not None and _speaks_mqtt(host, port):
            return Obstacle(f"port {port} speaks MQTT without TLS", "use mqtt://, or the broker's port for TLS")
        if "certificate" in error:
            return Obstacle(error, "set feed.ca to the certificate of the authority that signed the broker's")
        return Obstacle(error, "start the broker, or correct feed.broker or data.source")
    try:
        asyncio.run(_connect(settings, filters))
    except VersionRefused as refusal:
        return _explain(settings, filters, refusal)
    except SubscriptionRefused as refusal:
        return Obstacle(str(refusal), "allow this user to read the meters' topics, or correct feed.meters")
    except BrokerRefused as refusal:
        return Obstacle(str(refusal), "correct feed.username and feed.password_file, or the broker's access rules")
    except NetworkError as failure:
        return _explain(settings, filters, failure)
    return None


def _explain(settings: BrokerSettings, filters: Sequence[str], failure: NetworkError) -> Obstacle:
    """Return why a broker whose port is open does not speak MQTT as configured."""
    if settings.tls is None and _speaks_tls(settings.host, settings.port):
        return Obstacle(
            f"port {settings.port} expects TLS", "use mqtts://, with feed.ca if the certificate is your own"
        )
    if settings.mqtt5:
        try:
            asyncio.run(_connect(replace(settings, mqtt5=False), filters))
            return Obstacle("it speaks MQTT 3.1.1 only", 'set feed.version = "3.1.1"')
        except BrokerRefused as refusal:
            return Obstacle(f"it speaks MQTT 3.1.1 only; {refusal}", 'set feed.version = "3.1.1", and check the user')
        except NetworkError:
            pass
    return Obstacle(f"it does not answer as an MQTT broker ({failure})", "correct the port in feed.broker")


async def _connect(settings: BrokerSettings, filters: Sequence[str]) -> None:
    try:
        async with asyncio.timeout(_SESSION_SECONDS), open_session(settings, filters, None, lambda: None):
            pass
    except TimeoutError as error:
        raise NetworkError(f"no answer within {_SESSION_SECONDS:g} s") from error


def _speaks_mqtt(host: str, port: int) -> bool:
    """Return whether a port answers an anonymous MQTT connection without TLS, even if by a refusal."""
    try:
        with socket.create_connection((host, port), timeout=_PROBE_SECONDS) as connection:
            connection.sendall(_CONNECT)
            return connection.recv(1) == bytes([_CONNACK])
    except OSError:
        return False


def _speaks_tls(host: str, port: int) -> bool:
    """Return whether a port answers a TLS handshake; nothing is sent there, so the certificate does not matter."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=_PROBE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return error.reason not in ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE")
    except (OSError, ValueError):
        return False
