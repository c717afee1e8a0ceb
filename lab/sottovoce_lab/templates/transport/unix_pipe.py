"""Example of your own transport: TLS over Unix sockets between processes on one machine."""

import asyncio
import contextlib
import ssl
from pathlib import Path

from sottovoce.plugin import (
    DeliveryFailed,
    IdentityError,
    Listener,
    MessageRefused,
    Peer,
    Receive,
    TransportContext,
    TransportPlugin,
)

_LARGEST = 2**18


class UnixPipe:
    """A transport that opens one connection per message; both ends authenticate with their certificates."""

    largest = _LARGEST

    def __init__(self, context: TransportContext) -> None:
        self._context = context
        self._path = _path(str(context.settings["announce"]))
        self._server: asyncio.Server | None = None
        self._accepted = 0

    def reaches(self, address: str) -> bool:
        return _path(address).is_absolute()

    async def start(self, receive: Receive) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._accepted += 1
            with contextlib.suppress(OSError, EOFError), contextlib.closing(writer):
                try:
                    async with asyncio.timeout(10):
                        answer = await receive(self._sender(writer), await _read(reader))
                    await _write(writer, b"+" + answer)
                except (IdentityError, MessageRefused) as refusal:
                    await _write(writer, b"-" + str(refusal).encode())

        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(serve, self._path, ssl=self._context.server_tls())

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:
        async with asyncio.timeout(timeout):
            tls = self._context.client_tls()
            reader, writer = await asyncio.open_unix_connection(_path(peer.address), ssl=tls, server_hostname=peer.name)
            with contextlib.closing(writer):
                await _write(writer, message)
                answer = await _read(reader) or b"-the answer is too large"
        if answer[:1] != b"+":
            raise DeliveryFailed("refused", f"peer {peer.id} refused a message: {answer[1:].decode(errors='replace')}")
        return answer[1:]

    def listener(self) -> Listener:
        return Listener(self._accepted, 0)

    async def stop(self, grace: float) -> None:
        if self._server is not None:
            self._server.close()

    def _sender(self, writer: asyncio.StreamWriter) -> str:
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return self._context.trust.authenticate(ssl.DER_cert_to_PEM_cert(certificate).encode())


def _path(address: str) -> Path:
    return Path(address.removeprefix("unix-pipe://"))


async def _write(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(len(message).to_bytes(4, "big") + message)
    await writer.drain()


async def _read(reader: asyncio.StreamReader) -> bytes | None:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size) if size <= _LARGEST + 1 else None


TRANSPORT = TransportPlugin(UnixPipe)
