"""Messages from device to device through a broker: introduced, sealed, answered by the recipient itself.

A broker's acknowledgement means nothing here: a message is delivered when its recipient's answer has come. What the
broker sees is who sends to whom, when, and how much.
"""

import asyncio
import contextlib
import itertools
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from sottovoce.errors import IdentityError, InternalError, MessageRefused, SottovoceError
from sottovoce.identity.trust import Trust
from sottovoce.transport.mqtt.connection import Broker, Connection, Waiting
from sottovoce.transport.mqtt.introduction import Introduced, introduced, introduction
from sottovoce.transport.mqtt.secrecy import Channel, SessionKey
from sottovoce.transport.mqtt.topics import Topics
from sottovoce.transport.transport import DeliveryFailed, Listener, Peer, Receive
from sottovoce.wire.v1.mqtt_pb2 import Content, Frame

_M = TypeVar("_M", bound=Message)
_log = logging.getLogger(__name__)
_LARGEST = 2**17  # brokers refuse packets of some megabytes, and forget nothing of small ones
_MOST_FRAME_BYTES = _LARGEST + 2**13
_MOST_CALLS = 16
_MOST_CALLS_OF_ONE = 4
_MOST_SESSIONS = 4096
_MOST_FOLLOWED = 256
_MOST_PRESENT = 64
_REFRESH_SECONDS = 300.0
_KEPT_SECONDS = 3 * _REFRESH_SECONDS
_GONE_SECONDS = 86_400.0
_LOG_EVERY_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
_FAILURES = {
    Content.KIND_REFUSED: ("refused", "refused the message: {}"),
    Content.KIND_BUSY: ("busy", "is busy"),
    Content.KIND_FAILED: ("other", "the device failed: see what it logs"),
}


@dataclass(slots=True)
class _Session:
    """Another device since its start.

    Attributes:
        raw: its newest introduction, as it came.
        introduced: the same, verified.
        channel: to it and from it.
        knows: whether it has answered, so that it need not be introduced to again.
    """

    raw: bytes
    introduced: Introduced
    channel: Channel
    knows: bool = False


class MqttTransport:
    """Implements sottovoce.transport.Transport.

    Args:
        broker: where, and how.
        trust: who this device is, and whom it trusts.
        incarnation: how often this device has started.
        waiting: told what is waited for.
    """

    def __init__(self, *, broker: Broker, trust: Trust, incarnation: int, waiting: Waiting) -> None:
        own = trust.identity
        self.refused: Counter[str] = Counter()
        self._broker = broker
        self._trust = trust
        self._id, self._fleet = own.node_id, own.fleet
        self._incarnation = incarnation
        self._waiting = waiting
        self._sequence = 0
        self._topics = Topics(own.fleet, own.node_id)
        self._key = SessionKey()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._followed: OrderedDict[str, asyncio.Event] = OrderedDict()
        self._present: set[str] | None = None
        self._numbers = itertools.count(1)
        self._pending: dict[int, tuple[str, asyncio.Future[Content]]] = {}
        self._calls: Counter[str] = Counter()
        self._serving: set[asyncio.Task[None]] = set()
        self._running: list[asyncio.Task[None]] = []
        self._introductions = 0
        self._logged: dict[str, float] = {}
        self._receive: Receive | None = None
        self._connection: Connection | None = None

    @property
    def largest(self) -> int:
        """128 KiB."""
        return _LARGEST

    def reaches(self, address: str) -> bool:
        """Whoever uses the same broker."""
        return address == f"mqtt:{self._broker.realm}"

    @property
    def connection(self) -> Connection:
        """To the broker.

        Raises:
            InternalError: before the start.
        """
        if self._connection is None:
            raise InternalError("the transport was used before it was started: report this defect")
        return self._connection

    async def start(self, receive: Receive) -> None:
        """Begin to connect. A broker that cannot be reached is tried again and again; see Transport.start."""
        self._receive = receive
        self._connection = Connection(
            self._broker,
            self._id,
            farewell=self._farewell,
            connected=self._announce,
            arrived=self._arrived,
            lost=self._lost,
            waiting=self._waiting,
        )
        for topic in (self._topics.inboxes, self._topics.presence(self._id)):
            await self._connection.subscribe(topic)
        self._trust.subscribe(self._changed)
        self._running = [asyncio.create_task(self._connection.run()), asyncio.create_task(self._refresh())]

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Hand a message over; see Transport.deliver."""
        where = f"peer {peer.id} at {peer.address}"
        if not self.connection.is_up:
            raise DeliveryFailed("unreachable", f"{where}: no connection to the broker: {self.connection.problem}")
        stage = "it is not present on the broker: start its agent, or check that both use the same one"
        try:
            async with asyncio.timeout(timeout):
                session = await self._session_with(peer.id)
                stage = ""
                content = await self._ask(peer.id, session, message, timeout)
        except TimeoutError as error:
            if stage:
                raise DeliveryFailed("unreachable", f"{where}: {stage}") from error
            if (known := self._sessions.get(peer.id)) is not None:
                known.knows = False
            late = f"no answer within {timeout:g} s; it is slow or unreachable"
            raise DeliveryFailed("timeout", f"{where}: {late}") from error
        except OSError as error:
            raise DeliveryFailed("unreachable", f"{where}: the broker did not take the message: {error}") from error
        except _Gone as gone:
            raise DeliveryFailed("unreachable", f"{where}: {gone}") from gone
        if content.kind == Content.KIND_ANSWER:
            return bytes(content.body)
        cause, words = _FAILURES.get(content.kind, ("other", "answered what is no answer"))
        raise DeliveryFailed(cause, f"{where}: {words.format(content.body.decode(errors='replace'))}")

    async def present(self, seconds: float) -> tuple[str, ...]:
        """Node ids of up to 64 devices that say they are on the broker; it takes `seconds`.

        Raises:
            DeliveryFailed: there is no connection.
        """
        if not self.connection.is_up:
            raise DeliveryFailed("unreachable", f"no connection to the broker: {self.connection.problem}")
        self._present = set()
        try:
            await self.connection.subscribe(self._topics.everybody)
            await asyncio.sleep(seconds)
            return tuple(sorted(self._present))
        except OSError as error:
            raise DeliveryFailed("unreachable", f"the broker does not tell who is present: {error}") from error
        finally:
            self._present = None
            await self.connection.unsubscribe(self._topics.everybody)

    def listener(self) -> Listener:
        """Devices that introduced themselves, and messages and introductions that did not hold."""
        return Listener(self._introductions, self.refused.total())

    async def stop(self, grace: float) -> None:
        """Say that this device is gone; see Transport.stop."""
        if self._connection is None:
            return
        if self._serving:
            await asyncio.wait(self._serving, timeout=grace)
        if self._connection.is_up:
            topic, gone = self._topics.presence(self._id), self._introduction(gone=True)
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(grace):
                    await self._connection.publish(topic, gone, expires=_GONE_SECONDS, retain=True)
        self._connection.close()
        self._running[1].cancel()
        await asyncio.wait(self._running, timeout=grace + _ANSWER_SECONDS)
        for task in self._serving:
            task.cancel()
        self._lost()

    def _changed(self) -> None:
        """This device has a new certificate, or trusts others than before: everybody is told, and told again."""
        self._sequence += 2
        for session in self._sessions.values():
            session.knows = False
        if self.connection.is_up:
            self._serve(self._announce())

    def _introduction(self, *, gone: bool = False) -> bytes:
        """Of this device; the farewell to a connection is newer than what was said in it, older than in the next."""
        sequence = self._sequence if gone else self._sequence - 1
        return introduction(self._trust.identity, self._incarnation, sequence, self._key.public, gone=gone)

    def _farewell(self) -> tuple[str, bytes]:
        """What the broker is to say when this connection breaks."""
        self._sequence += 2
        return self._topics.presence(self._id), self._introduction(gone=True)

    async def _announce(self) -> None:
        topic = self._topics.presence(self._id)
        with contextlib.suppress(OSError):  # said by the connection, and done again by the next
            await self.connection.publish(topic, self._introduction(), expires=_KEPT_SECONDS, retain=True)

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            if self.connection.is_up:
                await self._announce()

    async def _session_with(self, peer: str) -> _Session:
        """What is known of a peer, once it is; raises _Gone when it says that it has left."""
        event = self._followed.get(peer)
        if event is None:
            event = self._followed[peer] = asyncio.Event()
            await self.connection.subscribe(self._topics.presence(peer))
            if len(self._followed) > _MOST_FOLLOWED:
                oldest, _ = self._followed.popitem(last=False)
                await self.connection.unsubscribe(self._topics.presence(oldest))
        self._followed.move_to_end(peer)
        if (session := self._sessions.get(peer)) is None:
            await event.wait()
            session = self._sessions[peer]
        if session.introduced.gone:
            raise _Gone("it has left the broker")
        return session

    async def _ask(self, peer: str, session: _Session, message: bytes, timeout: float) -> Content:  # noqa: ASYNC109
        number = next(self._numbers)
        future: asyncio.Future[Content] = asyncio.get_running_loop().create_future()
        self._pending[number] = (peer, future)
        try:
            request = Content(kind=Content.KIND_REQUEST, exchange=number, body=message)
            await self._send(peer, session, request, timeout)
            return await future
        finally:
            del self._pending[number]

    async def _send(self, peer: str, session: _Session, content: Content, expires: float) -> None:
        counter, sealed = session.channel.seal(content.SerializeToString())
        asks = content.kind == Content.KIND_REQUEST
        frame = Frame(
            sender_key=self._key.public,
            recipient_key=session.introduced.session_key,
            counter=counter,
            introduction=self._introduction() if asks and not session.knows else b"",
            sealed=sealed,
        )
        await self.connection.publish(self._topics.inbox(peer), frame.SerializeToString(), expires=expires)

    def _arrived(self, topic: str, payload: bytes) -> None:
        """Everything that comes from the broker, from whomever it is."""
        try:
            if (device := self._topics.present(topic)) is not None:
                self._heard(device, payload)
            elif (sender := self._topics.sender(topic)) is not None:
                self._framed(sender, payload)
        except MessageRefused as refusal:
            self.refused[refusal.reason] += 1
            now = time.monotonic()
            if now - self._logged.get(refusal.reason, float("-inf")) >= _LOG_EVERY_SECONDS:
                self._logged[refusal.reason] = now
                _log.warning("frame-refused reason=%s %s", refusal.reason, refusal)

    def _heard(self, device: str, raw: bytes) -> None:
        """A presence, new or kept by the broker; an empty one is nobody's word."""
        if not raw:
            return
        if device == self._id:
            self._echo(raw)
        elif (
            device in self._followed
            or device in self._sessions
            or (self._present is not None and len(self._present) < _MOST_PRESENT)
        ):
            self._meet(device, raw)
        session = self._sessions.get(device)
        if self._present is not None and session is not None and not session.introduced.gone:
            self._present.add(device)

    def _echo(self, raw: bytes) -> None:
        """What the broker keeps in this device's name: what was said last, or something is wrong."""
        known = introduced(raw, self._fleet, self._id, self._trust.verify)
        own = (self._incarnation, self._sequence - 1)
        if known.session_key != self._key.public and known.version[0] >= self._incarnation:
            self.connection.duplicates += 1
            _log.error(
                "duplicate-identity another device is on the broker with this device's identity: find the copy, stop "
                "it, and enrol it as a device of its own with `sottovoce fleet join`"
            )
        elif known.gone and known.version < own and self.connection.is_up:
            self._serve(self._announce())  # a farewell of an earlier connection came late

    def _meet(self, device: str, raw: bytes) -> _Session:
        """Know a device by its introduction.

        Raises:
            MessageRefused: it does not hold, or is older than what is known.
        """
        known = self._sessions.get(device)
        if known is not None and known.raw == raw:
            return known
        news = introduced(raw, self._fleet, device, self._trust.verify)
        if known is not None and news.version <= known.introduced.version:
            if news.session_key == known.introduced.session_key and not news.gone:
                return known
            raise MessageRefused("replayed", f"an introduction of {device} is older than what is known of it")
        if known is not None and news.session_key == known.introduced.session_key:
            known.raw, known.introduced = raw, news
        else:
            self._introductions += 1
            self._restarted(device)
            channel = self._key.shared_with(self._id, device, news.session_key)
            known = self._sessions[device] = _Session(raw, news, channel)
            if len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
        if (event := self._followed.get(device)) is not None:
            event.set()
        return known

    def _restarted(self, device: str) -> None:
        """Whatever waits for its answer waits in vain: it has another key."""
        for peer, future in self._pending.values():
            if peer == device and not future.done():
                future.set_exception(_Gone("it has started anew"))

    def _lost(self) -> None:
        for _, future in self._pending.values():
            if not future.done():
                future.set_exception(_Gone("the connection to the broker was lost"))

    def _framed(self, sender: str, raw: bytes) -> None:
        """A message of another device, if it is one."""
        if len(raw) > _MOST_FRAME_BYTES:
            raise MessageRefused("size", f"a frame of {len(raw)} bytes is over the limit of {_MOST_FRAME_BYTES}")
        frame = _decoded(Frame, raw)
        session = self._meet(sender, frame.introduction) if frame.introduction else self._sessions.get(sender)
        if session is None or session.introduced.session_key != frame.sender_key:
            raise MessageRefused("stranger", f"a frame came from {sender}, who was not introduced with that key")
        if frame.recipient_key != self._key.public:
            raise MessageRefused("stale", f"a frame of {sender} is for this device before its restart")
        if datetime.now(UTC) > session.introduced.subject.not_after:
            raise MessageRefused("certificate", f"the certificate of {sender} has expired")
        content = _decoded(Content, session.channel.open(frame.counter, frame.sealed))
        self._sessions.move_to_end(sender)
        if content.kind == Content.KIND_REQUEST:
            self._serve(self._answer(sender, session, content))
            return
        session.knows = True
        peer, future = self._pending.get(content.exchange, ("", None))
        if future is not None and peer == sender and not future.done():
            future.set_result(content)

    def _serve(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _answer(self, sender: str, session: _Session, request: Content) -> None:
        kind, body = await self._answered(sender, request.body)
        content = Content(kind=kind, exchange=request.exchange, body=body)
        with contextlib.suppress(OSError):  # whoever asked will ask again
            await self._send(sender, session, content, _ANSWER_SECONDS)

    async def _answered(self, sender: str, message: bytes) -> tuple[Content.Kind, bytes]:
        if self._receive is None or self._calls.total() >= _MOST_CALLS or self._calls[sender] >= _MOST_CALLS_OF_ONE:
            return Content.KIND_BUSY, b""
        self._calls[sender] += 1
        try:
            return Content.KIND_ANSWER, await self._receive(sender, message if len(message) <= _LARGEST else None)
        except MessageRefused as refusal:
            return Content.KIND_REFUSED, f"{refusal.reason}: {refusal}".encode()
        except IdentityError as error:
            return Content.KIND_REFUSED, f"certificate: {error}".encode()
        except SottovoceError:
            return Content.KIND_FAILED, b""
        finally:
            self._calls[sender] -= 1


class _Gone(Exception):
    """A peer, or the way to it, is away."""


def _decoded(kind: type[_M], raw: bytes) -> _M:
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise MessageRefused("malformed", "a frame is not a protobuf message of its kind") from error
