"""Certificates in real TLS: those that grpc.aio accepts, and those that it refuses."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import grpc.aio
import pytest
from sottovoce.fleet import Identity, verify_peer_certificate
from sottovoce_operator.fleet import Fleet, enrol

METHOD = "/sottovoce.v1.Peer/Deliver"
CLOSED = "Socket closed"
WRONG_NAME = "Hostname Verification Check failed"


class Server:
    """Server that echoes requests over mutual TLS, and counts handshakes begun and calls served."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.handshakes = 0
        self.callers: list[str] = []

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        pair = (self.identity.tls_key_pem, self.identity.tls_cert_pem)
        return grpc.ssl_server_certificate_configuration([pair], self.identity.ca_pem)

    def _fetch(self) -> grpc.ServerCertificateConfiguration:
        self.handshakes += 1
        return self._configuration()

    async def _echo(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        (pem,) = context.auth_context()["x509_pem_cert"]
        self.callers.append(verify_peer_certificate(pem, self.identity).node_id)
        return request

    async def run(self, body: Callable[[int], Awaitable[None]]) -> None:
        server = grpc.aio.server()
        handlers = {"Deliver": grpc.unary_unary_rpc_method_handler(self._echo)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("sottovoce.v1.Peer", handlers),))
        credentials = grpc.dynamic_ssl_server_credentials(self._configuration(), self._fetch, True)
        port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        try:
            await body(port)
        finally:
            await server.stop(None)


async def _call(port: int, name: str, ca: bytes, client: Identity | None) -> bytes:
    pair = (client.tls_key_pem, client.tls_cert_pem) if client else (None, None)
    credentials = grpc.ssl_channel_credentials(ca, *pair)
    options = [("grpc.ssl_target_name_override", name)]
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options=options) as channel:
        return bytes(await channel.unary_unary(METHOD)(b"hush", timeout=60))


def test_devices_in_one_fleet_connect(fleet: Fleet, device: Identity, tmp_path: Path) -> None:
    client = enrol(fleet, tmp_path / "client")
    server = Server(device)

    async def body(port: int) -> None:
        assert await _call(port, device.dns_name, client.ca_pem, client) == b"hush"

    asyncio.run(server.run(body))
    assert (server.callers, server.handshakes) == ([client.node_id], 1)


def test_a_server_refuses_strangers(
    fleet: Fleet, namesake: Fleet, device: Identity, expired: Identity, early: Identity, tmp_path: Path
) -> None:
    stranger = enrol(namesake, tmp_path / "stranger")
    server = Server(device)

    async def body(port: int) -> None:
        for client in (None, stranger, expired, early):
            with pytest.raises(grpc.aio.AioRpcError, match=CLOSED) as exc_info:
                await _call(port, device.dns_name, device.ca_pem, client)
            assert exc_info.value.code() is grpc.StatusCode.UNAVAILABLE

    asyncio.run(server.run(body))
    assert (server.callers, server.handshakes) == ([], 4)


@pytest.mark.parametrize(
    "who,explanation",
    [
        ("stranger", "issuer"),
        ("expired", "expired"),
        ("early", "yet valid"),
        ("another", WRONG_NAME),
    ],
)
def test_a_client_refuses_impostors(
    who: str,
    explanation: str,
    fleet: Fleet,
    namesake: Fleet,
    device: Identity,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if who in ("expired", "early"):
        impostor: Identity = request.getfixturevalue(who)
    else:
        impostor = enrol({"stranger": namesake, "another": fleet}[who], tmp_path / who)
    name = impostor.dns_name if who != "another" else device.dns_name
    server = Server(impostor)

    async def body(port: int) -> None:
        with pytest.raises(grpc.aio.AioRpcError, match=explanation) as exc_info:
            await _call(port, name, device.ca_pem, device)
        assert exc_info.value.code() is grpc.StatusCode.UNAVAILABLE

    asyncio.run(server.run(body))
    assert not server.callers
