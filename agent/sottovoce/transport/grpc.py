"""gRPC with mutual TLS. There is no other mode: without keys there is no transport."""

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import grpc
import grpc.aio

from sottovoce.errors import IdentityError, MessageRefused, NetworkError, SottovoceError
from sottovoce.transport.transport import DeliveryFailed, Listener, Peer, Receive

SERVICE = "sottovoce.v1.Peer"
METHOD = f"/{SERVICE}/Deliver"
_MAX_MESSAGE = 4 * 2**20
_LARGEST = 2**18
_MAX_CALLS = 16
_MAX_STREAMS = 4
_MAX_CALLS_OF_ONE = _MAX_STREAMS  # over all its connections: who opens calls and says nothing keeps nobody out
_MAX_CONNECTIONS_REMEMBERED = 4096
_CONNECTION_SECONDS = 3600
_MOST_CHANNELS = 64  # to the peers last sent to; a connection costs both sides memory
_HANDSHAKE_SECONDS = 2.0

_CLOSED = (
    "it closed the connection: it may not accept this device's certificate (expired, or of another fleet), "
    "or what listens there is not an agent"
)
_CAUSES = {
    "certificate has expired": ("tls", "its certificate has expired: run `sottovoce fleet join` there again"),
    "certificate is not yet valid": ("tls", "its certificate is not yet valid: check the clocks of both devices"),
    "CERTIFICATE_VERIFY_FAILED": ("tls", "its certificate is not of this fleet: check that both joined the same fleet"),
    "Hostname Verification": ("tls", "another device answers there: correct the peer's id or address in [transport]"),
    "security handshaker": ("tls", "this device's key and certificate do not fit: run `sottovoce fleet join` again"),
    "WRONG_VERSION_NUMBER": (
        "rejected",
        "what listens there speaks no TLS, so it is not an agent: correct the address",
    ),
    "Socket closed": ("rejected", _CLOSED),
    "Connection reset": ("rejected", _CLOSED),
    "Connection refused": ("unreachable", "nobody listens there: start the agent or correct the address"),
    "DNS resolution failed": ("unreachable", "its host name is not known: correct the address"),
}


class GrpcTransport:
    """Implements sottovoce.transport.Transport.

    Args:
        listen: host:port.
        key: PEM of this device's TLS key.
        chain: PEM of its certificate.
        roots: PEM of the fleet's certificate.
        expires: when this device's certificate ends.
        authenticate: gives the node id of a peer's PEM certificate, or raises IdentityError.
        reconnect: longest pause between attempts to connect, seconds.
    """

    def __init__(
        self,
        *,
        listen: str,
        key: bytes,
        chain: bytes,
        roots: bytes,
        expires: datetime,
        authenticate: Callable[[bytes], str],
        reconnect: float,
    ) -> None:
        self._listen = listen
        self._expires = expires
        self._authenticate = authenticate
        self._reconnect_ms = max(100, int(reconnect * 1000))
        self._credentials = grpc.ssl_channel_credentials(roots, key, chain)
        self._configuration = grpc.ssl_server_certificate_configuration([(key, chain)], roots)
        self._channels: OrderedDict[Peer, grpc.aio.Channel] = OrderedDict()
        self._in_use: Counter[Peer] = Counter()
        self._server: grpc.aio.Server | None = None
        self._receive: Receive | None = None
        self._lock = threading.Lock()
        self._handshakes = 0
        self._recent: deque[float] = deque(maxlen=1024)
        self._admitted = 0
        self._calls: Counter[str] = Counter()
        self._connections: OrderedDict[str, float] = OrderedDict()

    @property
    def largest(self) -> int:
        """256 KiB: whoever tries again repeats no more than that."""
        return _LARGEST

    def reaches(self, address: str) -> bool:
        """Whatever is host:port."""
        return not address.startswith("mqtt:")

    async def start(self, receive: Receive) -> None:
        """Listen; see Transport.start."""
        self._receive = receive
        server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", _MAX_MESSAGE),
                ("grpc.max_connection_age_ms", _CONNECTION_SECONDS * 1000),
                ("grpc.max_concurrent_streams", _MAX_STREAMS),
            ],
            maximum_concurrent_rpcs=_MAX_CALLS,
        )
        # A stream of one: gRPC itself would refuse a message that is too large without telling the agent.
        handler = grpc.stream_unary_rpc_method_handler(self._deliver)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Deliver": handler}),))
        credentials = grpc.dynamic_ssl_server_credentials(self._configuration, self._handshake, True)
        try:
            server.add_secure_port(self._listen, credentials)
            await server.start()
        except RuntimeError as error:
            raise NetworkError(
                f"cannot listen on {self._listen}: the address is in use or not of this machine; "
                "change transport.listen or stop what uses it"
            ) from error
        self._server = server

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Hand a message over; see Transport.deliver. The deadline is gRPC's own: a cancelled call would leak."""
        call = self._channel(peer).unary_unary(METHOD)
        self._in_use[peer] += 1
        try:
            answer: bytes = await call(message, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            failure = _explained(peer, error, timeout)
            if failure.cause == "rejected" and datetime.now(UTC) > self._expires:
                own = f"this device's certificate expired on {self._expires:%Y-%m-%d}: run `sottovoce fleet join` again"
                failure = DeliveryFailed("rejected", f"peer {peer.id} at {peer.address}: {own}")
            raise failure from error
        finally:
            self._in_use[peer] -= 1
            await self._close_spare()
        return answer

    def listener(self) -> Listener:
        """Handshakes, and those too old to be still in progress that led to no call."""
        with self._lock:
            horizon = time.monotonic() - _HANDSHAKE_SECONDS
            young = sum(1 for at in self._recent if at > horizon)
            return Listener(self._handshakes, max(0, self._handshakes - young - self._admitted))

    async def stop(self, grace: float) -> None:
        """See Transport.stop."""
        if self._server is not None:
            await self._server.stop(grace)
        for channel in self._channels.values():
            await channel.close(grace)
        self._channels.clear()

    def _handshake(self) -> None:
        """Called by gRPC, on a thread of its own, once for every connection accepted.

        None says that the certificate is still the same. With a configuration gRPC would rebuild its TLS while others
        shake hands, and now and then abort.
        """
        with self._lock:
            self._handshakes += 1
            self._recent.append(time.monotonic())

    def _channel(self, peer: Peer) -> grpc.aio.Channel:
        channel = self._channels.get(peer)
        if channel is None:
            channel = self._channels[peer] = grpc.aio.secure_channel(
                peer.address,
                self._credentials,
                options=[
                    ("grpc.ssl_target_name_override", peer.name),
                    ("grpc.max_receive_message_length", _MAX_MESSAGE),
                    ("grpc.enable_http_proxy", 0),
                    ("grpc.initial_reconnect_backoff_ms", 100),
                    ("grpc.max_reconnect_backoff_ms", self._reconnect_ms),
                ],
            )
        self._channels.move_to_end(peer)
        return channel

    async def _close_spare(self) -> None:
        """Close the channels that were used longest ago, beyond the most that are kept."""
        idle = [peer for peer in self._channels if not self._in_use[peer]]
        for peer in idle[: max(0, len(self._channels) - _MOST_CHANNELS)]:
            del self._in_use[peer]
            await self._channels.pop(peer).close(None)

    async def _deliver(self, _: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> bytes:
        if self._receive is None:
            raise NetworkError("a call arrived before the agent was ready")
        try:
            sender = self._sender(context)
            if self._calls[sender] >= _MAX_CALLS_OF_ONE:
                await _abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls at once from this device")
            self._calls[sender] += 1
            try:
                message = await context.read()
                return await self._receive(sender, message if isinstance(message, bytes) else None)
            finally:
                self._calls[sender] -= 1
        except IdentityError as error:
            await _abort(context, grpc.StatusCode.UNAUTHENTICATED, f"certificate: {error}")
        except MessageRefused as error:
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, f"{error.reason}: {error}")
        except SottovoceError:
            await _abort(context, grpc.StatusCode.INTERNAL, "the device failed: see what it logs")
        raise NetworkError("unreachable: abort raises")

    def _sender(self, context: grpc.aio.ServicerContext) -> str:
        certificate: bytes = context.auth_context()["x509_pem_cert"][0]
        with self._lock:
            connection, now = context.peer(), time.monotonic()
            # A connection is known by address and port, which another may have once this one is over.
            if now - self._connections.get(connection, float("-inf")) > 2 * _CONNECTION_SECONDS:
                self._admitted += 1
                self._connections[connection] = now
                self._connections.move_to_end(connection)
                if len(self._connections) > _MAX_CONNECTIONS_REMEMBERED:
                    self._connections.popitem(last=False)
        return self._authenticate(certificate)


async def _abort(context: grpc.aio.ServicerContext, code: grpc.StatusCode, details: str) -> None:
    """End a call with an error; if it has ended already, nobody is there to be told."""
    try:
        await context.abort(code, details)
    except grpc.aio.InternalError as error:
        raise grpc.aio.AbortError from error


def _explained(peer: Peer, error: grpc.aio.AioRpcError, timeout: float) -> DeliveryFailed:
    """One sentence: who, what happened, what to do."""
    details = error.details() or ""
    where = f"peer {peer.id} at {peer.address}"
    match error.code():
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeliveryFailed("timeout", f"{where}: no answer within {timeout:g} s; it is slow or unreachable")
        case grpc.StatusCode.FAILED_PRECONDITION:
            return DeliveryFailed("refused", f"{where}: refused the message: {details}")
        case grpc.StatusCode.UNAUTHENTICATED:
            return DeliveryFailed("refused", f"{where}: refused this device: {details}")
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return DeliveryFailed("busy", f"{where}: is busy, or the message is too large for it ({details})")
        case grpc.StatusCode.UNAVAILABLE:
            for token, (cause, remedy) in _CAUSES.items():
                if token in details:
                    return DeliveryFailed(cause, f"{where}: {remedy}")
            return DeliveryFailed("unreachable", f"{where}: cannot be reached ({details})")
        case code:
            return DeliveryFailed("other", f"{where}: {code.name}: {details}")
