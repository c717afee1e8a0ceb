"""Transport over gRPC that always uses mutual TLS; it cannot run without keys."""

import asyncio
import contextlib
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import grpc
import grpc.aio

from sottovoce.errors import IdentityError, MessageRefused, NetworkError, SottovoceError
from sottovoce.fleet import Trust
from sottovoce.net.listening import make_listening_error, split_address
from sottovoce.net.transports.front import ConnectionGate
from sottovoce.net.transports.reads import ReadDisplaced, Reads
from sottovoce.net.transports.transport import DeliveryFailed, Listener, Peer, Receive, is_direct

SERVICE = "sottovoce.v1.Peer"
METHOD = f"/{SERVICE}/Deliver"
_MAX_MESSAGE_BYTES = 2**18
_MAX_ANSWER_BYTES = 4 * 2**20  # answers are never sent in parts, and may contain a model
_MAX_ANSWERS = 4  # answers being received
_MAX_CALLS = 48  # three times as many as are read: calls that are handled or aborted must not lock out others
_MAX_READS = 16  # messages being received, each of at most 256 KiB
_MAX_STREAMS = 4
_MAX_CALLS_PER_DEVICE = _MAX_STREAMS  # per device, over all its connections: idle calls must not lock out other devices
_CONNECTION_SECONDS = 300  # maximum age of a connection, because the peer's certificate may no longer be valid
_CONNECTION_GRACE_SECONDS = 60
_WINDOW = 2**16  # bytes that a connection and the kernel hold for a call before it is read
_MAX_CHANNELS = 64  # kept to the most recently used peers, because every connection costs both sides memory
_HANDSHAKE_SECONDS = 10

_CLOSED = (
    "the peer closed the connection: it may have rejected this device's certificate (expired or from another fleet), "
    "or the program listening there is not an agent"
)
_CAUSES = {
    "certificate has expired": (
        "tls",
        "the peer's certificate has expired: run `sottovoce fleet renew` on that device",
    ),
    "certificate is not yet valid": (
        "tls",
        "the peer's certificate is not valid yet: check the clocks of both devices",
    ),
    "CERTIFICATE_VERIFY_FAILED": (
        "tls",
        "the peer's certificate does not belong to this fleet: check that both devices joined the same fleet",
    ),
    "Hostname Verification": (
        "tls",
        "another device answered at this address: correct the peer's id or address in [transport]",
    ),
    "security handshaker": ("tls", "this device's key and certificate do not match: run `sottovoce fleet join` again"),
    "WRONG_VERSION_NUMBER": (
        "rejected",
        "the program listening there does not use TLS, so it is not an agent: correct the address",
    ),
    "RST_STREAM with error code 7": ("busy", "too many calls from this device are in progress"),  # REFUSED_STREAM
    "Socket closed": ("rejected", _CLOSED),
    "Connection reset": ("rejected", _CLOSED),
    "Connection refused": ("unreachable", "nothing listens there: start the agent or correct the address"),
    "DNS resolution failed": ("unreachable", "the host name cannot be resolved: correct the address"),
}


@dataclass(slots=True)
class _Channel:
    """A channel to a peer, and the number of calls in progress on it."""

    channel: grpc.aio.Channel
    calls: int = 0


class GrpcTransport:
    """An implementation of sottovoce.net.transports.Transport over gRPC.

    When this device's certificate changes, later handshakes use the new certificate, and all channels are replaced;
    calls in progress finish on their old channels. Channels to revoked devices are closed.

    Args:
        listen: address to listen on, host:port.
        trust: this device's key and certificate, the TLS roots, and the revoked devices.
        reconnect: longest backoff between connection attempts, in seconds.
        check_quota: raises MessageRefused if a sender has used up its quota; called before a message is read.
    """

    def __init__(
        self,
        *,
        listen: str,
        trust: Trust,
        reconnect: float,
        check_quota: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._check_quota = check_quota
        self._listen = listen
        self._trust = trust
        self._reconnect_ms = max(100, int(reconnect * 1000))
        self._identity = trust.identity
        self._credentials = _channel_credentials(trust)
        self._new_configurations: deque[grpc.ServerCertificateConfiguration] = deque(maxlen=1)
        self._channels: OrderedDict[Peer, _Channel] = OrderedDict()
        self._stopped = False
        self._retired: list[_Channel] = []
        self._server: grpc.aio.Server | None = None
        self._receive: Receive | None = None
        self._calls: Counter[str] = Counter()
        self._requests = Reads(_MAX_READS)
        self._answers = Reads(_MAX_ANSWERS)
        self._front = ConnectionGate()
        trust.subscribe(self._apply_trust_change)

    @property
    def largest(self) -> int:
        """The message size limit: 256 KiB, which bounds the number of bytes that a retry sends again."""
        return _MAX_MESSAGE_BYTES

    def reaches(self, address: str) -> bool:
        """Return whether the address is host:port."""
        return is_direct(address)

    async def start(self, receive: Receive) -> None:
        """Listen for messages; see Transport.start."""
        self._receive = receive
        server = grpc.aio.server(
            options=[
                # gRPC checks the length before it reads the rest, so no member makes a device hold more than honest
                # members do. Without probes, a stream's flow-control window stays at 64 KiB.
                ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
                ("grpc.http2.bdp_probe", 0),
                ("grpc.max_connection_age_ms", _CONNECTION_SECONDS * 1000),
                ("grpc.max_connection_age_grace_ms", _CONNECTION_GRACE_SECONDS * 1000),
                ("grpc.max_concurrent_streams", _MAX_STREAMS),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_SECONDS * 1000),
            ],
            maximum_concurrent_rpcs=_MAX_CALLS,
        )
        # The call is a stream of one message, because gRPC would reject an oversized unary message without calling the
        # agent's handler.
        handler = grpc.stream_unary_rpc_method_handler(self._deliver)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Deliver": handler}),))
        credentials = grpc.dynamic_ssl_server_credentials(_configuration(self._trust), self._handshake, True)
        host, port = split_address(self._listen)
        try:
            server.add_secure_port(f"unix:{self._front.socket_path()}", credentials)
            await server.start()
            await self._front.start(host, port)
        except (OSError, RuntimeError) as error:
            await asyncio.gather(server.stop(None), self._front.stop(0.0))
            raise make_listening_error("transport.listen", self._listen, error) from error
        self._server = server

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Deliver a message; see Transport.deliver. gRPC enforces the deadline, because a cancelled call would leak."""
        if self._stopped:  # a closed channel would raise a different error
            raise DeliveryFailed("unreachable", f"peer {peer.id} at {peer.address}: this device is stopping")
        entry = self._channel_to(peer)
        entry.calls += 1
        try:
            return await self._call(entry.channel, peer, message, timeout)
        except grpc.aio.AioRpcError as error:
            failure, expires = _delivery_failure(peer, error, timeout), self._trust.identity.not_after
            if failure.cause == "rejected" and datetime.now(UTC) > expires:
                explanation = f"this device's certificate expired on {expires:%Y-%m-%d}: run `sottovoce fleet renew`"
                failure = DeliveryFailed("rejected", f"peer {peer.id} at {peer.address}: {explanation}")
            raise failure from error
        finally:
            entry.calls -= 1
            await self._close_spare()

    async def _call(self, channel: grpc.aio.Channel, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        # The answer is one message. A call for a stream receives nothing of it beyond a flow-control window until it is
        # read, so peers that answer at the same time do not fill the memory.
        call = channel.unary_stream(METHOD)(message, timeout=timeout)
        await call.initial_metadata()
        try:
            answer = await self._answers.read(peer.id, call.read())
        except ReadDisplaced as displaced:
            call.cancel()
            raise DeliveryFailed(
                "busy", f"peer {peer.id} at {peer.address}: the answer arrived too slowly"
            ) from displaced
        if not isinstance(answer, bytes):
            raise DeliveryFailed("other", f"peer {peer.id} at {peer.address}: the peer sent no answer")
        return answer

    def listener(self) -> Listener:
        """Return the number of accepted connections, and of those that were closed without a call."""
        trouble = self._front.trouble if self._server is not None else "the gRPC server is not listening yet"
        return Listener(self._front.accepted, self._front.turned_away, trouble, flooding=self._front.held)

    async def stop(self, grace: float) -> None:
        """Stop listening, and close all channels; see Transport.stop."""
        self._stopped = True
        if self._server is not None:
            await asyncio.gather(self._server.stop(grace), self._front.stop(grace))
        for entry in (*self._channels.values(), *self._retired):
            await entry.channel.close(grace)
        self._channels.clear()
        self._retired.clear()

    def _handshake(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the new certificate configuration, or None if the certificate has not changed.

        gRPC calls this on its own thread for every connection. Whenever this method returns a configuration, gRPC
        rebuilds its TLS state while other handshakes are in progress, and sometimes aborts. Each new configuration is
        therefore returned only once.
        """
        try:
            return self._new_configurations.pop()  # atomic, since gRPC's thread calls this
        except IndexError:
            return None

    def _apply_trust_change(self) -> None:
        """Apply a change of the certificate, the TLS roots, or the set of revoked devices."""
        retired = [peer for peer in self._channels if self._trust.is_revoked(peer.id)]
        if self._identity is not self._trust.identity:
            self._identity = self._trust.identity
            self._credentials = _channel_credentials(self._trust)
            self._new_configurations.append(_configuration(self._trust))
            retired = list(self._channels)
        self._retired += [self._channels.pop(peer) for peer in retired]

    def _channel_to(self, peer: Peer) -> _Channel:
        entry = self._channels.get(peer)
        if entry is None:
            channel = grpc.aio.secure_channel(
                peer.address,
                self._credentials,
                options=[
                    ("grpc.ssl_target_name_override", peer.name),
                    ("grpc.max_receive_message_length", _MAX_ANSWER_BYTES),
                    ("grpc.http2.bdp_probe", 0),
                    ("grpc.tcp_receive_buffer_size", _WINDOW),
                    ("grpc.enable_http_proxy", 0),
                    ("grpc.initial_reconnect_backoff_ms", 100),
                    ("grpc.max_reconnect_backoff_ms", self._reconnect_ms),
                ],
            )
            entry = self._channels[peer] = _Channel(channel)
        self._channels.move_to_end(peer)
        return entry

    async def _close_spare(self) -> None:
        """Close idle channels that are retired, or that exceed the limit and were used least recently."""
        idle = [peer for peer, entry in self._channels.items() if not entry.calls]
        spare = [self._channels.pop(peer) for peer in idle[: max(0, len(self._channels) - _MAX_CHANNELS)]]
        spare += [entry for entry in self._retired if not entry.calls]
        self._retired = [entry for entry in self._retired if entry.calls]
        for entry in spare:
            await entry.channel.close(None)

    async def _deliver(self, _: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> bytes:
        answer = await self._answer(context)
        if isinstance(answer, bytes):
            return answer
        # Outside of any `except`: otherwise the error that aborts the call would refer to the one that explains it, and
        # through its traceback to the message, until the next garbage collection. A flood left 100 MiB that way.
        await _abort(context, *answer)
        raise NetworkError("unreachable: abort always raises an exception")

    async def _answer(self, context: grpc.aio.ServicerContext) -> bytes | tuple[grpc.StatusCode, str]:
        """Return the answer to a call, or the status and the explanation with which the call must be aborted."""
        if self._receive is None:
            raise NetworkError("a call arrived before the agent was ready")
        try:
            sender = self._authenticate_sender(context)
        except IdentityError as error:
            return grpc.StatusCode.UNAUTHENTICATED, f"certificate: {error}"
        try:
            if self._calls[sender] >= _MAX_CALLS_PER_DEVICE:
                return grpc.StatusCode.RESOURCE_EXHAUSTED, "too many concurrent calls from this device"
            self._check_quota(sender)  # a call that is refused here holds no more than a flow-control window
            self._calls[sender] += 1
            message: object = None
            try:
                message = await self._requests.read(sender, context.read())
                return await self._receive(sender, message if isinstance(message, bytes) else None)
            except asyncio.CancelledError:
                if not isinstance(message, bytes):  # the call has ended, and with it the message
                    with contextlib.suppress(MessageRefused):
                        await self._receive(sender, None)
                raise
            finally:
                self._calls[sender] -= 1
        except IdentityError as error:
            return grpc.StatusCode.UNAUTHENTICATED, f"certificate: {error}"
        except MessageRefused as error:
            if error.reason == "quota":
                self._front.hold(sender)
            return grpc.StatusCode.FAILED_PRECONDITION, f"{error.reason}: {error}"
        except ReadDisplaced:
            return grpc.StatusCode.RESOURCE_EXHAUSTED, "the message arrived too slowly while others were waiting"
        except MemoryError:
            return grpc.StatusCode.RESOURCE_EXHAUSTED, "out of memory"
        except SottovoceError:
            return grpc.StatusCode.INTERNAL, "the receiving device failed: see that device's log"

    def _authenticate_sender(self, context: grpc.aio.ServicerContext) -> str:
        certificate: bytes = context.auth_context()["x509_pem_cert"][0]
        sender = self._trust.authenticate(certificate)
        self._front.admit(context.peer(), sender)
        return sender


def _channel_credentials(trust: Trust) -> grpc.ChannelCredentials:
    identity = trust.identity
    return grpc.ssl_channel_credentials(identity.ca_pem, identity.tls_key_pem, identity.tls_cert_pem)


def _configuration(trust: Trust) -> grpc.ServerCertificateConfiguration:
    identity = trust.identity
    return grpc.ssl_server_certificate_configuration([(identity.tls_key_pem, identity.tls_cert_pem)], identity.ca_pem)


async def _abort(context: grpc.aio.ServicerContext, code: grpc.StatusCode, details: str) -> None:
    """Abort a call with an error; the peer does not receive it if the call has already ended."""
    try:
        await context.abort(code, details)
    except grpc.aio.InternalError as error:
        raise grpc.aio.AbortError from error


def _delivery_failure(peer: Peer, error: grpc.aio.AioRpcError, timeout: float) -> DeliveryFailed:
    """Return a failure whose one-sentence message names the peer, the cause, and where possible the remedy."""
    details = error.details() or ""
    prefix = f"peer {peer.id} at {peer.address}"
    match error.code():
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeliveryFailed(
                "timeout", f"{prefix}: no answer within {timeout:g} s; the peer is slow or unreachable"
            )
        case grpc.StatusCode.FAILED_PRECONDITION:
            return DeliveryFailed("refused", f"{prefix}: the peer refused the message: {details}")
        case grpc.StatusCode.UNAUTHENTICATED:
            return DeliveryFailed("refused", f"{prefix}: the peer refused this device: {details}")
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return DeliveryFailed("busy", f"{prefix}: the peer is busy, or the message is too large ({details})")
        case grpc.StatusCode.UNAVAILABLE:
            for token, (cause, remedy) in _CAUSES.items():
                if token in details:
                    return DeliveryFailed(cause, f"{prefix}: {remedy}")
            return DeliveryFailed("unreachable", f"{prefix}: the peer cannot be reached ({details})")
        case code:
            return DeliveryFailed("other", f"{prefix}: {code.name}: {details}")
