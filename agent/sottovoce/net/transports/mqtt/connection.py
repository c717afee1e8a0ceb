"""Connection to an MQTT broker that reconnects automatically."""

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from aiomqtt import Client, MqttCodeError, MqttError
from paho.mqtt.packettypes import PacketTypes

from sottovoce.concurrency import cancel_and_wait
from sottovoce.errors import SottovoceError
from sottovoce.net.transports.mqtt.client import CONNECT_SECONDS, QOS, Broker, ClosableClient, new_client
from sottovoce.ops import RateLimitedLog

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
logging.getLogger("mqtt").setLevel(logging.CRITICAL)  # this module logs problems itself, with cause and remedy

_LONGEST_PAUSE = 10.0  # a typical cycle period, so that all devices have reconnected by the next cycle
_SHORTEST_PAUSE = 0.2
_STABLE_SECONDS = 60.0
_GOODBYE_SECONDS = 2.0
_WILL_SECONDS = 86_400
_TAKEN_OVER = 0x8E
_WAIT = "broker"


class Waiting(Protocol):
    """Interface for reporting a connection's waits; sottovoce.node.waits.Waits implements it."""

    def begin(self, name: str, reason: str, seconds: float) -> None:
        """Record that a wait of at most `seconds` has begun."""
        ...

    def end(self, name: str) -> None:
        """Record that the wait has ended."""
        ...


class Connection:
    """A broker connection that reconnects until it is closed.

    Args:
        broker: the broker to connect to.
        identifier: the client identifier, which must be the same after every start, because the broker stores queued
            messages under it.
        farewell: function that returns the topic and payload that the broker publishes if the connection breaks; it is
            called for each new connection.
        on_connect: function called after each connection, once all topics are subscribed.
        on_message: function called with the topic and payload of each message.
        on_loss: function called whenever the connection is lost.
        waiting: receives reports of the waits.
    """

    def __init__(
        self,
        broker: Broker,
        identifier: str,
        *,
        farewell: Callable[[], tuple[str, bytes]],
        on_connect: Callable[[], Coroutine[Any, Any, None]],
        on_message: Callable[[str, bytes], None],
        on_loss: Callable[[], None],
        waiting: Waiting,
    ) -> None:
        self.problem = "not connected yet"
        self.duplicates = 0
        self._loss_logged = False
        self._broker = broker
        self._identifier = identifier
        self._farewell = farewell
        self._on_connect = on_connect
        self._on_message = on_message
        self._on_loss = on_loss
        self._waiting = waiting
        self._sparse_log = RateLimitedLog(_log)
        self._topics: dict[str, None] = {}
        self._client: Client | None = None
        self._ended = asyncio.Event()
        self._closing = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Whether messages can currently be sent."""
        return self._client is not None

    async def run(self) -> None:
        """Connect and listen, and reconnect after each loss, until `close` is called."""
        failures = 0
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            while not self._closing.is_set():
                began = time.monotonic()
                session = asyncio.ensure_future(self._session())
                await asyncio.wait({session, closing}, return_when=asyncio.FIRST_COMPLETED)
                if not session.done():
                    await cancel_and_wait({session}, _GOODBYE_SECONDS)
                    return
                if (defect := session.exception()) is not None:
                    self.problem = "an internal error occurred (see the log): this is a bug; please report it"
                    self._sparse_log.log(
                        logging.ERROR, "defect", "broker-connection-failed: this is a bug; please report it: %r", defect
                    )
                failures = 1 if time.monotonic() - began > _STABLE_SECONDS else failures + 1
                longest = min(_LONGEST_PAUSE, self._broker.longest_pause, _SHORTEST_PAUSE * 2 ** min(failures, 16))
                pause = random.uniform(_SHORTEST_PAUSE, longest)  # noqa: S311 - jitter, not a secret
                self._waiting.begin(_WAIT, f"the pause before reconnecting to {self._endpoint}: {self.problem}", pause)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), pause)
        finally:
            closing.cancel()
            self._waiting.end(_WAIT)

    def close(self) -> None:
        """Make `run` disconnect and return."""
        self.problem = "this device is stopping"
        self._closing.set()

    async def publish(self, topic: str, payload: bytes, *, expires: float, retain: bool = False) -> None:
        """Publish a message; success means only that the broker accepted it, not that the recipient received it.

        Args:
            topic: the message's topic.
            payload: the message's content.
            expires: seconds after which an MQTT 5 broker drops the message; also limits the wait for the broker.
            retain: whether the broker retains the message for later subscribers.

        Raises:
            OSError: if the broker did not accept the message.
        """
        client = self._client
        if client is None:
            raise OSError(self.problem)
        properties = self._broker.properties(PacketTypes.PUBLISH, MessageExpiryInterval=max(1, math.ceil(expires)))
        patience = min(expires, CONNECT_SECONDS)
        await self._while_connected(client.publish(topic, payload, QOS, retain, properties, timeout=patience))

    async def subscribe(self, topic: str) -> None:
        """Subscribe to a topic, now and after each reconnection.

        Raises:
            OSError: if the broker did not accept the subscription.
        """
        self._topics[topic] = None
        if self._client is not None:
            try:
                await self._subscribe(self._client, topic)
            except OSError:
                self._topics.pop(topic, None)
                raise

    async def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic."""
        self._topics.pop(topic, None)
        if self._client is not None:
            with contextlib.suppress(OSError):
                await self._while_connected(self._client.unsubscribe(topic, timeout=CONNECT_SECONDS))

    @property
    def _endpoint(self) -> str:
        return f"the broker {self._broker.host}:{self._broker.port}"

    async def _session(self) -> None:
        """Run a single connection, from the attempt to connect until the connection ends."""
        self._waiting.begin(_WAIT, f"{self._endpoint} to accept the connection", CONNECT_SECONDS)
        client, self._ended = None, asyncio.Event()
        try:
            topic, farewell = self._farewell()
            client = new_client(self._broker, self._identifier, (topic, farewell), _WILL_SECONDS)
            async with client:
                for topic in tuple(self._topics):
                    await self._subscribe(client, topic)
                self._client = client
                self._waiting.end(_WAIT)
                self.problem = ""
                self._log_connected()
                announcing = asyncio.ensure_future(self._on_connect())
                try:
                    await self._listen(client)
                finally:
                    announcing.cancel()
        except (MqttError, OSError, SottovoceError) as error:
            self.problem = self._explain(error)
            if self._sparse_log.log(logging.WARNING, "lost", "broker-lost %s: %s", self._endpoint, self.problem):
                self._loss_logged = True
        finally:
            self._client = None
            if client is not None:
                client.force_close()
            self._ended.set()
            self._on_loss()

    def _log_connected(self) -> None:
        """Log that the connection is up; always do so if its loss was logged, and otherwise at a limited rate."""
        if self._loss_logged:
            self._loss_logged = False
            _log.info("broker-connected %s", self._endpoint)
        else:
            self._sparse_log.log(logging.INFO, "connected", "broker-connected %s", self._endpoint)

    async def _listen(self, client: ClosableClient) -> None:
        """Handle each message as it arrives, and first those that arrived during the subscription, until the end."""
        client.on_message = self._on_message
        async for message in client.messages:
            if isinstance(message.payload, bytes | bytearray):
                self._on_message(message.topic.value, bytes(message.payload))

    async def _subscribe(self, client: Client, topic: str) -> None:
        granted = await self._while_connected(client.subscribe(topic, QOS, timeout=CONNECT_SECONDS))
        codes = [getattr(code, "value", code) for code in granted]
        if any(code >= 0x80 for code in codes):
            raise OSError(f"this device is not authorised to subscribe to {topic}; correct the broker's access control")

    async def _while_connected(self, call: Coroutine[Any, Any, _T]) -> _T:
        """Wait for the broker's reply to a call, but only while connected; the client itself would keep waiting."""
        calling, ended = asyncio.ensure_future(call), asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait({calling, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                raise OSError(self.problem)
            return calling.result()
        except MqttError as error:
            raise OSError(str(error)) from error
        finally:
            calling.cancel()
            ended.cancel()

    def _explain(self, error: Exception) -> str:
        """Return an explanation of an error, with the remedy if it is known."""
        while isinstance(error, MqttError | OSError) and isinstance(error.__cause__, Exception):
            error = error.__cause__
        if not isinstance(error, MqttError | OSError | SottovoceError):
            return "the broker sent data that is not valid MQTT"  # further details would contain the broker's own text
        code = getattr(error.rc, "value", error.rc) if isinstance(error, MqttCodeError) else None
        if code == _TAKEN_OVER:
            self.duplicates += 1
            self._sparse_log.log(
                logging.ERROR,
                "taken-over",
                "duplicate-identity another client connected to %s with this device's id: find the copy of this "
                "device, stop it, and enrol it as a separate device with `sottovoce fleet join`",
                self._endpoint,
            )
            return "another client connected with this device's id"
        if code in (4, 5, 0x86, 0x87):
            return (
                "the broker does not accept this device; check the device's user and certificate, and the "
                "broker's access control"
            )
        text = str(error)
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return (
                f"the broker's certificate is not trusted ({text}): set transport.mqtt.ca to the certificate of its CA"
            )
        if "Connection refused" in text:
            return "nothing listens there: start the broker, or correct transport.mqtt.url"
        return text or type(error).__name__
