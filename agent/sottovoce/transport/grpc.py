"""Transport over gRPC with mutual TLS. There is no other mode: without keys there is no transport."""

import asyncio
import threading
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

import grpc
import grpc.aio

from sottovoce.errors import IdentityError, MessageRefused, NetworkError, SottovoceError
from sottovoce.identity import Trust
from sottovoce.listening import cannot_listen, split_address
from sottovoce.transport.front import Front
from sottovoce.transport.transport import DeliveryFailed, Listener, Peer, Receive, is_direct

SERVICE = "sottovoce.v1.Peer"
METHOD = f"/{SERVICE}/Deliver"
_MAX_MESSAGE = 4 * 2**20
_LARGEST = 2**18
_MAX_CALLS = 16
_MAX_STREAMS = 4
_MAX_CALLS_OF_ONE = _MAX_STREAMS  # limit over all its connections, so that silent calls exclude no device
_CONNECTION_SECONDS = 300  # age at which a connection is renewed: the peer may no longer be valid
_CONNECTION_GRACE_SECONDS = 60
_MAX_CHANNELS = 64  # to the most recent peers; a connection costs both sides memory
_HANDSHAKE_SECONDS = 10

_CLOSED = (
    "it closed the connection: it may not accept this device's certificate (expired, or of another fleet), "
    "or what listens there is not an agent"
)
_CAUSES = {
    "certificate has expired": ("tls", "its certificate has expired: run `sottovoce fleet renew` there"),
    "certificate is not yet valid": ("tls", "its certificate is not yet valid: check the clocks of both devices"),
    "CERTIFICATE_VERIFY_FAILED": (
        "tls",
        "its certificate does not belong to this fleet: check that both joined the same fleet",
    ),
    "Hostname Verification": ("tls", "another device answers there: correct the peer's id or address in [transport]"),
    "security handshaker": ("tls", "this device's key and certificate do not fit: run `sottovoce fleet join` again"),
    "WRONG_VERSION_NUMBER": (
        "rejected",
        "the program that listens there does not use TLS, so it is not an agent: correct the address",
    ),
    "RST_STREAM with error code 7": ("busy", "has as many calls of this device as it takes at once"),  # REFUSED_STREAM
    "Socket closed": ("rejected", _CLOSED),
    "Connection reset": ("rejected", _CLOSED),
    "Connection refused": ("unreachable", "nothing listens there: start the agent or correct the address"),
    "DNS resolution failed": ("unreachable", "its host name is not known: correct the address"),
}


@dataclass(slots=True)
class _Channel:
    """Channel to a peer, with the number of calls in progress on it."""

    channel: grpc.aio.Channel
    calls: int = 0


class GrpcTransport:
    """Implementation of sottovoce.transport.Transport over gRPC.

    When this device's certificate changes, later handshakes use the new one and channels are replaced; calls under way
    finish on their old channels. Channels to refused devices are closed.

    Args:
        listen: listening address, host:port.
        trust: this device's key and certificate, the roots of TLS, and the refused devices.
        reconnect: longest pause between attempts to connect, in seconds.
    """

    def __init__(
        self,
        *,
        listen: str,
        trust: Trust,
        reconnect: float,
    ) -> None:
        self._listen = listen
        self._trust = trust
        self._reconnect_ms = max(100, int(reconnect * 1000))
        self._identity = trust.identity
        self._credentials = _channel_credentials(trust)
        self._next: grpc.ServerCertificateConfiguration | None = None
        self._ways: OrderedDict[Peer, _Channel] = OrderedDict()
        self._stopped = False
        self._retired: list[_Channel] = []
        self._server: grpc.aio.Server | None = None
        self._receive: Receive | None = None
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._front = Front()
        trust.subscribe(self._changed)

    @property
    def largest(self) -> int:
        """Size limit of a message: 256 KiB, which is also the most that a retry repeats."""
        return _LARGEST

    def reaches(self, address: str) -> bool:
        """Return whether the address is host:port."""
        return is_direct(address)

    async def start(self, receive: Receive) -> None:
        """Listen for messages; see Transport.start."""
        self._receive = receive
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", _MAX_MESSAGE),
                ("grpc.max_connection_age_ms", _CONNECTION_SECONDS * 1000),
                ("grpc.max_connection_age_grace_ms", _CONNECTION_GRACE_SECONDS * 1000),
                ("grpc.max_concurrent_streams", _MAX_STREAMS),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_SECONDS * 1000),
            ],
            maximum_concurrent_rpcs=_MAX_CALLS,
        )
        # A stream of one message: otherwise gRPC would refuse too large a message without telling the agent.
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
            raise cannot_listen("transport.listen", self._listen, error) from error
        self._server = server

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        """Deliver a message; see Transport.deliver. The deadline is gRPC's own: a cancelled call would leak."""
        if self._stopped:  # a closed channel would answer with an error of its own
            raise DeliveryFailed("unreachable", f"peer {peer.id} at {peer.address}: this device is stopping")
        way = self._channel_to(peer)
        way.calls += 1
        try:
            answer: bytes = await way.channel.unary_unary(METHOD)(message, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            failure, expires = _delivery_failure(peer, error, timeout), self._trust.identity.not_after
            if failure.cause == "rejected" and datetime.now(UTC) > expires:
                own = f"this device's certificate expired on {expires:%Y-%m-%d}: run `sottovoce fleet renew`"
                failure = DeliveryFailed("rejected", f"peer {peer.id} at {peer.address}: {own}")
            raise failure from error
        finally:
            way.calls -= 1
            await self._close_spare()
        return answer

    def listener(self) -> Listener:
        """Return the numbers of accepted connections, and of closed ones that led to no call."""
        trouble = self._front.trouble if self._server is not None else "it does not listen yet"
        return Listener(self._front.accepted, self._front.turned_away, trouble)

    async def stop(self, grace: float) -> None:
        """See Transport.stop."""
        self._stopped = True
        if self._server is not None:
            await asyncio.gather(self._server.stop(grace), self._front.stop(grace))
        for way in (*self._ways.values(), *self._retired):
            await way.channel.close(grace)
        self._ways.clear()
        self._retired.clear()

    def _handshake(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the new certificate configuration for gRPC, which calls this on its own thread per connection.

        None means that the certificate has not changed. Given a configuration, gRPC would rebuild its TLS during other
        handshakes and sometimes abort, so it gets each new one only once.
        """
        with self._lock:
            changed, self._next = self._next, None
        return changed

    def _changed(self) -> None:
        """Apply a change of the certificate, the roots, or the refused devices."""
        retired = [peer for peer in self._ways if self._trust.refuses(peer.id)]
        if self._identity is not self._trust.identity:
            self._identity = self._trust.identity
            self._credentials = _channel_credentials(self._trust)
            with self._lock:
                self._next = _configuration(self._trust)
            retired = list(self._ways)
        self._retired += [self._ways.pop(peer) for peer in retired]

    def _channel_to(self, peer: Peer) -> _Channel:
        way = self._ways.get(peer)
        if way is None:
            channel = grpc.aio.secure_channel(
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
            way = self._ways[peer] = _Channel(channel)
        self._ways.move_to_end(peer)
        return way

    async def _close_spare(self) -> None:
        """Close retired channels, and the least recently used ones beyond the limit."""
        idle = [peer for peer, way in self._ways.items() if not way.calls]
        spare = [self._ways.pop(peer) for peer in idle[: max(0, len(self._ways) - _MAX_CHANNELS)]]
        spare += [way for way in self._retired if not way.calls]
        self._retired = [way for way in self._retired if way.calls]
        for way in spare:
            await way.channel.close(None)

    async def _deliver(self, _: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> bytes:
        if self._receive is None:
            raise NetworkError("a call arrived before the agent was ready")
        try:
            sender = self._authenticate_sender(context)
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
        except MemoryError:
            await _abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "no memory at the moment")
        except SottovoceError:
            await _abort(context, grpc.StatusCode.INTERNAL, "the device failed: see what it logs")
        raise NetworkError("unreachable: abort raises")

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
    """End a call with an error, which has no effect if the call has already ended."""
    try:
        await context.abort(code, details)
    except grpc.aio.InternalError as error:
        raise grpc.aio.AbortError from error


def _delivery_failure(peer: Peer, error: grpc.aio.AioRpcError, timeout: float) -> DeliveryFailed:
    """Return the failure, in one sentence, with the peer and the remedy."""
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
