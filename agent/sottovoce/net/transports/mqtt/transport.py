"""Delivery of sealed messages between devices through an MQTT broker.

The broker's acknowledgement does not count as delivery: a message is delivered when the recipient's answer has arrived.
The broker sees the sender, the recipient, the time and the size of each message.
"""

import asyncio
import contextlib
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from sottovoce.errors import IdentityError, InternalError, MessageRefused, SottovoceError
from sottovoce.fleet.trust import Trust
from sottovoce.net.transports.mqtt.client import Broker
from sottovoce.net.transports.mqtt.connection import Connection, Waiting
from sottovoce.net.transports.mqtt.exchanges import Exchanges, PeerUnavailable
from sottovoce.net.transports.mqtt.intake import Intake
from sottovoce.net.transports.mqtt.introduction import decode_canonical
from sottovoce.net.transports.mqtt.known_devices import KnownDevice, KnownDevices
from sottovoce.net.transports.mqtt.presence import Echo, IntroductionVerifier, Presence
from sottovoce.net.transports.mqtt.topics import Topics
from sottovoce.net.transports.transport import DeliveryFailed, Listener, Peer, Receive
from sottovoce.net.wire.v1.mqtt_pb2 import Content, Frame
from sottovoce.ops import RateLimitedLog

_log = logging.getLogger(__name__)
_MAX_MESSAGE_BYTES = 2**17  # brokers reject packets of several megabytes but queue smaller ones
_MAX_FRAME_BYTES = _MAX_MESSAGE_BYTES + 2**13
_MAX_CALLS = 16
_MAX_CALLS_PER_DEVICE = 4
_MAX_ANSWERS = 64  # answers in preparation or being sent; further requests are not answered
_MAX_FOLLOWED = 256
_MAX_PRESENT = 64
_MAX_EXPLANATION_BYTES = 500  # maximum size of a peer's explanation in bytes
_REFRESH_SECONDS = 300.0
_RETAIN_SECONDS = 3 * _REFRESH_SECONDS
_MIN_INTERVAL_SECONDS = 5.0  # minimum time between two announcements, even if the broker contradicts them
_GONE_SECONDS = 86_400.0
_ANSWER_SECONDS = 10.0
_LOST_SECONDS = 2.0  # how long to wait for answers to requests that were sent before a peer reconnected
_FAILURES = {
    Content.KIND_REFUSED: ("refused", "the peer refused the message: {}"),
    Content.KIND_BUSY: ("busy", "the peer is busy"),
    Content.KIND_FAILED: ("other", "the receiving device failed: see that device's log"),
}


class MqttTransport:
    """An implementation of sottovoce.net.transports.Transport over MQTT.

    Args:
        broker: the broker's address and protocol.
        trust: this device's identity and the devices that it trusts.
        incarnation: number of times that this device has started.
        waiting: receives reports of the waits.
        charge_frame: function called with the sender of each frame before the frame is read; raises MessageRefused if
            the sender's quota is used up, after which the sender is shut out for a while.
        note_refused_frame: function called with the sender of each refused frame, and the refusal.
        on_peer_reachable: function called with the node id of a peer that has connected to the broker, or with None
            after this device has connected.
    """

    def __init__(
        self,
        *,
        broker: Broker,
        trust: Trust,
        incarnation: int,
        waiting: Waiting,
        charge_frame: Callable[[str], None] = lambda _: None,
        note_refused_frame: Callable[[str, MessageRefused], None] = lambda _sender, _refusal: None,
        on_peer_reachable: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        identity = trust.identity
        self.refused: Counter[str] = Counter()
        self._broker = broker
        self._trust = trust
        self._id = identity.node_id
        self._waiting = waiting
        self._charge_frame = charge_frame
        self._note_refused_frame = note_refused_frame
        self._topics = Topics(identity.fleet, identity.node_id)
        notary = IntroductionVerifier(trust)
        self._presence = Presence(trust, notary, incarnation)
        self._known_devices = KnownDevices(self._presence, notary, self._fail_requests, self._on_peer_returned)
        self._on_peer_reachable = on_peer_reachable
        self._exchanges = Exchanges()
        self._followed: OrderedDict[str, None] = OrderedDict()
        self._present: set[str] | None = None
        self._calls: Counter[str] = Counter()
        self._answering: set[asyncio.Task[None]] = set()
        self._running: list[asyncio.Task[None]] = []
        self._announce_again = asyncio.Event()
        self._leaving = False
        self._sparse_log = RateLimitedLog(_log)
        self._receive: Receive | None = None
        self._connection: Connection | None = None
        self._intake: Intake | None = None

    @property
    def largest(self) -> int:
        """The message size limit: 128 KiB."""
        return _MAX_MESSAGE_BYTES

    def reaches(self, address: str) -> bool:
        """Return whether the address is mqtt:REALM with this broker's realm."""
        return address == f"mqtt:{self._broker.realm}"

    @property
    def connection(self) -> Connection:
        """The connection to the broker.

        Raises:
            InternalError: if the transport has not been started.
        """
        if self._connection is None:
            raise InternalError("the transport was used before it was started: this is a bug; please report it")
        return self._connection

    @property
    def _started_intake(self) -> Intake:
        if self._intake is None:
            raise InternalError("the transport was used before it was started: this is a bug; please report it")
        return self._intake

    async def start(self, receive: Receive) -> None:
        """Start connecting, and retry while the broker cannot be reached; see Transport.start."""
        self._receive = receive
        self._connection = Connection(
            self._broker,
            self._id,
            farewell=self._farewell,
            on_connect=self._on_connected,
            on_message=self._on_message,
            on_loss=lambda: self._exchanges.end("the connection to the broker was lost", left=False),
            waiting=self._waiting,
        )
        self._intake = Intake(self._topics, self._connection, lambda: (*self._known_devices.devices, *self._followed))
        for topic in (self._topics.inboxes, self._topics.presence(self._id)):
            await self._connection.subscribe(topic)
        self._trust.subscribe(self._on_trust_change)
        tasks = (self._connection.run(), self._refresh(), self._intake.run())
        self._running = [asyncio.create_task(task) for task in tasks]

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Deliver a message; see Transport.deliver."""
        prefix = f"peer {peer.id} at {peer.address}"
        if not self.connection.is_up:
            reason = f"no connection to the broker: {self.connection.problem}"
            raise DeliveryFailed("unreachable", f"{prefix}: {reason}", left=False)
        known = None
        try:
            async with asyncio.timeout(timeout):
                known = await self._await_known_device(peer.id)
                content = await self._request(peer.id, known, message, timeout)
        except TimeoutError as error:
            if known is None:
                reason = (
                    "the peer is not present on the broker: start its agent, or check that both devices use this broker"
                )
                raise DeliveryFailed("unreachable", f"{prefix}: {reason}") from error
            known.has_answered = False
            if known.introduced.gone:
                known.mark_absent()
            reason = f"no answer within {timeout:g} s; the peer is slow or unreachable"
            raise DeliveryFailed("timeout", f"{prefix}: {reason}") from error
        except OSError as error:
            raise DeliveryFailed("unreachable", f"{prefix}: the broker did not accept the message: {error}") from error
        except PeerUnavailable as unavailable:
            raise DeliveryFailed("unreachable", f"{prefix}: {unavailable}", left=unavailable.left) from unavailable
        if content.kind == Content.KIND_ANSWER:
            return bytes(content.body)
        cause, template = _FAILURES.get(content.kind, ("other", "the peer sent an invalid answer"))
        detail = " ".join(content.body[:_MAX_EXPLANATION_BYTES].decode(errors="replace").split())
        raise DeliveryFailed(cause, f"{prefix}: {template.format(detail)}")

    async def discover(self, seconds: float) -> tuple[str, ...]:
        """Return the node ids of up to 64 devices that announce themselves on the broker within `seconds`.

        Raises:
            DeliveryFailed: if there is no connection to the broker, or the subscription fails.
        """
        if not self.connection.is_up:
            raise DeliveryFailed("unreachable", f"no connection to the broker: {self.connection.problem}")
        self._present = set()
        try:
            await self.connection.subscribe(self._topics.all_presences)
            await asyncio.sleep(seconds)
            return tuple(sorted(self._present))
        except OSError as error:
            raise DeliveryFailed("unreachable", f"the broker does not report presence: {error}") from error
        finally:
            self._present = None
            await self.connection.unsubscribe(self._topics.all_presences)

    def listener(self) -> Listener:
        """Return the number of devices that introduced themselves, and of refused messages and introductions."""
        connection = self.connection
        trouble = "" if connection.is_up else f"no connection to the broker: {connection.problem}"
        introductions, refused = self._known_devices.introductions, self.refused.total()
        return Listener(introductions, refused, trouble, connection.duplicates, self._started_intake.shut_out)

    async def stop(self, grace: float) -> None:
        """Announce that this device is leaving the broker, and disconnect; see Transport.stop."""
        if self._connection is None:
            return
        connecting, refreshing, listening = self._running
        listening.cancel()
        self._leaving = True  # otherwise the broker's echo of the farewell would trigger a new announcement
        refreshing.cancel()
        if self._answering:
            await asyncio.wait(self._answering, timeout=grace)
        if self._connection.is_up:
            topic, announcement = self._topics.presence(self._id), self._presence.departure_announcement()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(grace):
                    await self._started_intake.close()
                    await self._connection.publish(topic, announcement, expires=_GONE_SECONDS, retain=True)
        self._connection.close()
        await asyncio.wait({connecting, refreshing, listening}, timeout=grace + _ANSWER_SECONDS)
        for task in self._answering:
            task.cancel()
        self._exchanges.end("this device is stopping")

    def _on_trust_change(self) -> None:
        """Announce this device to every peer again, after a change of its certificate or trust."""
        self._known_devices.invalidate_all()
        self._presence.renew()
        self._announce_again.set()

    def _fail_requests(self, device: str | None) -> None:
        """Fail pending requests after a change of session key, because no answers to them will arrive.

        Args:
            device: node id of the peer whose key has changed; None if this device's key has changed.
        """
        if device is None:
            self._announce_again.set()
        self._exchanges.end("the peer or this device has restarted", device)

    def _farewell(self) -> tuple[str, bytes]:
        """Return the topic and the message that the broker must publish if the next connection breaks."""
        self._presence.renew()
        return self._topics.presence(self._id), self._presence.departure_announcement()

    def _on_peer_returned(self, device: str) -> None:
        """After a short delay, fail unanswered requests to a peer that has returned, because they may be lost."""
        lost = partial(
            self._exchanges.end, "the peer has reconnected", device, until=self._exchanges.newest, left=False
        )
        asyncio.get_running_loop().call_later(_LOST_SECONDS, lost)
        self._on_peer_reachable(device)

    async def _on_connected(self) -> None:
        self._started_intake.reconnected()
        await self._announce()
        self._on_peer_reachable(None)

    async def _announce(self) -> None:
        topic = self._topics.presence(self._id)
        with contextlib.suppress(OSError):  # the connection reports the error, and reconnecting announces again
            await self.connection.publish(
                topic, self._presence.presence_announcement(), expires=_RETAIN_SECONDS, retain=True
            )

    async def _refresh(self) -> None:
        """Announce this device regularly, before the broker drops its announcement, and on request."""
        while not self._leaving:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH_SECONDS):  # unlike wait_for, this never loses a cancellation
                    await self._announce_again.wait()
            self._announce_again.clear()
            if self.connection.is_up and not self._leaving:
                await self._announce()
            await asyncio.sleep(_MIN_INTERVAL_SECONDS)

    async def _await_known_device(self, peer: str) -> KnownDevice:
        """Wait until a peer is known, and return it.

        Raises:
            PeerUnavailable: if the peer has announced that it left the broker.
        """
        followed = peer in self._followed
        self._followed[peer] = None  # before subscribing, because a retained message may arrive before the reply
        self._followed.move_to_end(peer)
        if not followed:
            self._started_intake.follow()
            try:
                await self.connection.subscribe(self._topics.presence(peer))
            except BaseException:
                self._followed.pop(peer, None)
                raise
        if len(self._followed) > _MAX_FOLLOWED:
            oldest, _ = self._followed.popitem(last=False)
            await self.connection.unsubscribe(self._topics.presence(oldest))
        known = await self._known_devices.wait_for(peer)
        if known.is_gone:
            raise PeerUnavailable("the peer has left the broker")
        return known

    async def _request(self, peer: str, contact: KnownDevice, message: bytes, timeout: float) -> Content:  # noqa: ASYNC109
        with self._exchanges.begin(peer) as (number, answer):
            request = Content(kind=Content.KIND_REQUEST, exchange=number, body=message)
            await self._send(peer, contact, request, timeout)
            content = await answer
        if isinstance(content, PeerUnavailable):
            raise content
        return content

    async def _send(self, peer: str, contact: KnownDevice, content: Content, expires: float) -> None:
        sender_key = self._presence.key.public
        counter, sealed = contact.channel.seal(content.SerializeToString())
        is_request = content.kind == Content.KIND_REQUEST
        frame = Frame(
            sender_key=sender_key,
            recipient_key=contact.introduced.session_key,
            counter=counter,
            introduction=self._presence.presence_announcement() if is_request and not contact.has_answered else b"",
            sealed=sealed,
        )
        raw = frame.SerializeToString(deterministic=True)
        await self.connection.publish(self._topics.inbox(peer), raw, expires=expires)

    def _on_message(self, topic: str, payload: bytes) -> None:
        """Handle a message from the broker, which may come from any sender."""
        present, sender = self._topics.present_device(topic), self._topics.sender(topic)
        device = present or sender
        if device is None or self._started_intake.is_shut_out(device):
            return
        try:
            if device != self._id:
                self._charge_frame(device)
            if present is not None:
                self._on_announcement(present, payload)
            else:
                self._on_frame(device, payload)
        except MessageRefused as refusal:
            self._refuse_frame(device, refusal)

    def _refuse_frame(self, device: str, refusal: MessageRefused) -> None:
        self.refused[refusal.reason] += 1
        if refusal.reason == "quota":
            self._started_intake.shut_out_for_a_while(device)
            return
        if device != self._id:
            self._note_refused_frame(device, refusal)
        self._sparse_log.log(logging.WARNING, refusal.reason, "frame-refused reason=%s %s", refusal.reason, refusal)

    def _on_announcement(self, device: str, raw: bytes) -> None:
        """Handle a new or retained presence announcement; ignore an empty one."""
        if not raw:
            return
        if device == self._id:
            self._on_echo(self._presence.check_echo(raw))
            return
        listening = self._present is not None and len(self._present) < _MAX_PRESENT
        if listening or device in self._followed or device in self._known_devices:
            known = self._known_devices.add(device, raw)
            if self._present is not None and not known.is_gone:
                self._present.add(device)

    def _on_echo(self, echo: Echo) -> None:
        """Handle an announcement about this device, which should be the latest announcement that it has published."""
        if echo is Echo.DENIES:
            self._announce_again.set()  # an old farewell arrived late, or the broker is dishonest
        elif echo is Echo.COPY:
            self.connection.duplicates += 1
            self._sparse_log.log(
                logging.ERROR,
                "copy",
                "duplicate-identity another device is on the broker with this device's identity: find the copy, stop "
                "it, and enrol it as a separate device with `sottovoce fleet join`",
            )

    def _on_frame(self, sender: str, raw: bytes) -> None:
        """Handle a frame, which should contain a request or an answer from another device."""
        if len(raw) > _MAX_FRAME_BYTES:
            raise MessageRefused("size", f"a frame of {len(raw)} bytes exceeds the limit of {_MAX_FRAME_BYTES}")
        frame = decode_canonical(Frame, raw)
        if frame.recipient_key != self._presence.key.public:
            raise MessageRefused("stale", f"a frame from {sender} was sealed for this device before its last restart")
        if frame.introduction:
            self._known_devices.add(sender, frame.introduction)
        known = self._known_devices.find(sender)
        if known is None and sender in self._known_devices:
            raise MessageRefused("certificate", f"the certificate of {sender} is no longer valid")
        if known is None or known.introduced.session_key != frame.sender_key:
            raise MessageRefused("stranger", f"a frame from {sender} uses a key that is not known to belong to it")
        content = decode_canonical(Content, known.channel.open(frame.counter, frame.sealed))
        known.mark_present()
        if content.kind != Content.KIND_REQUEST:
            known.has_answered = True
            self._exchanges.accept_answer(sender, content)
        elif len(self._answering) < _MAX_ANSWERS:
            self._start_answer(self._answer(sender, known, content))

    def _start_answer(self, answer: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(answer)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, sender: str, contact: KnownDevice, request: Content) -> None:
        kind, body = await self._result_for(sender, request.body)
        content = Content(kind=kind, exchange=request.exchange, body=body)
        with contextlib.suppress(OSError):  # the sender will repeat its request
            await self._send(sender, contact, content, _ANSWER_SECONDS)

    async def _result_for(self, sender: str, message: bytes) -> tuple[Content.Kind, bytes]:
        if self._receive is None or self._calls.total() >= _MAX_CALLS or self._calls[sender] >= _MAX_CALLS_PER_DEVICE:
            return Content.KIND_BUSY, b""
        self._calls[sender] += 1
        try:
            return Content.KIND_ANSWER, await self._receive(
                sender, message if len(message) <= _MAX_MESSAGE_BYTES else None
            )
        except MessageRefused as refusal:
            if refusal.reason == "quota":
                self._note_refused_frame(sender, refusal)
            return Content.KIND_REFUSED, f"{refusal.reason}: {refusal}".encode()[:_MAX_EXPLANATION_BYTES]
        except IdentityError as error:
            return Content.KIND_REFUSED, f"certificate: {error}".encode()[:_MAX_EXPLANATION_BYTES]
        except MemoryError:
            return Content.KIND_BUSY, b""
        except SottovoceError:
            return Content.KIND_FAILED, b""
        finally:
            self._calls[sender] -= 1
            if not self._calls[sender]:
                del self._calls[sender]
