"""Short requests: silent, slow and numerous clients have a limit and a deadline, and block no other client."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from sottovoce.net import request_server as module
from sottovoce.net.request_server import MAX_CONNECTIONS, RequestServer

from tests.support.waiting import TIMEOUT, until

MAX_BYTES = 100


async def echo(request: bytes | None) -> bytes:
    if request is None:
        return b"too long\n"
    match request:
        case b"large\n":
            return b"x" * 2**22
        case b"never\n":
            await asyncio.Event().wait()
        case b"no memory\n":
            raise MemoryError
    return b"answer to " + request


@asynccontextmanager
async def serve_requests(
    path: Path, seconds: float = TIMEOUT, ready_answer: Callable[[bytes], bytes | None] = lambda request: None
) -> AsyncIterator[RequestServer]:
    server = RequestServer(
        "test",
        is_complete=lambda request: b"\n" in request,
        answer=echo,
        ready_answer=ready_answer,
        max_bytes=MAX_BYTES,
        seconds=seconds,
    )
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    server.start(listener)
    try:
        yield server
    finally:
        await server.stop(0.0)


class Clients:
    """Connections that are closed at the end."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._open: list[socket.socket] = []

    async def connect(self, count: int, request: bytes = b"") -> list[socket.socket]:
        loop = asyncio.get_running_loop()
        created = []
        for _ in range(count):
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            await loop.sock_connect(client, self._path)
            if request:
                await loop.sock_sendall(client, request)
            created.append(client)
        self._open += created
        return created

    async def ask(self, question: bytes) -> bytes:
        (client,) = await self.connect(1, question)
        return await read_all(client)

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._open:
            client.close()


async def read_all(client: socket.socket) -> bytes:
    """Return everything received until the server closes the connection."""
    received = b""
    async with asyncio.timeout(TIMEOUT):
        with suppress(ConnectionError):
            while chunk := await asyncio.get_running_loop().sock_recv(client, 2**20):
                received += chunk
    return received


async def wait_for_connections(server: RequestServer, count: int) -> None:
    await asyncio.to_thread(until, lambda: server.connections == count, f"{count} connections")


async def test_a_request_is_answered_and_its_connection_is_closed(tmp_path: Path) -> None:
    async with serve_requests(tmp_path / "s") as server:
        with Clients(tmp_path / "s") as clients:
            assert await clients.ask(b"hello\n") == b"answer to hello\n"
            assert len(await clients.ask(b"large\n")) == 2**22
            assert await clients.ask(b"x" * 200_000) == b"too long\n"
        await wait_for_connections(server, 0)


async def test_the_oldest_silent_connection_is_closed_and_it_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_requests(tmp_path / "s") as server:
        with Clients(tmp_path / "s") as clients:
            silent = await clients.connect(1000)
            for _ in range(20):
                assert await clients.ask(b"hello\n") == b"answer to hello\n"
            assert server.connections <= MAX_CONNECTIONS
            assert await read_all(silent[0]) == b""
            await asyncio.get_running_loop().sock_sendall(silent[-1], b"late\n")
            assert await read_all(silent[-1]) == b"answer to late\n", "the newest is still connected"
    assert [record.getMessage().split()[0] for record in caplog.records] == ["connections-crowded"]


@pytest.mark.parametrize("ready", [b"ready\n", None])
async def test_a_request_that_has_arrived_is_answered_rather_than_displaced(
    tmp_path: Path, ready: bytes | None
) -> None:
    async with serve_requests(tmp_path / "s", ready_answer=lambda request: ready) as server:
        with Clients(tmp_path / "s") as clients:
            oldest, *_ = await clients.connect(MAX_CONNECTIONS)
            await wait_for_connections(server, MAX_CONNECTIONS)
            oldest.send(b"hello\n")
            newest, accepted = socket.socketpair()
            with newest:
                server._accept_connection(accepted, "")  # before the event loop has seen the request
                assert await read_all(oldest) == (ready or b"answer to hello\n")
                assert await clients.ask(b"late\n") == (ready or b"answer to late\n")


async def test_connections_of_the_busiest_origin_are_closed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origins = iter(["feed", *["crowd"] * 1000])
    monkeypatch.setattr(module, "_origin", lambda caller, address: next(origins))
    async with serve_requests(tmp_path / "s") as server:
        with Clients(tmp_path / "s") as clients:
            (other,) = await clients.connect(1)
            await wait_for_connections(server, 1)
            await clients.connect(5 * MAX_CONNECTIONS)
            await wait_for_connections(server, MAX_CONNECTIONS)
            await asyncio.get_running_loop().sock_sendall(other, b"hello\n")
            assert await read_all(other) == b"answer to hello\n"


async def test_a_client_that_does_not_read_is_closed_and_one_that_waits_is_not(tmp_path: Path) -> None:
    async with serve_requests(tmp_path / "s") as server:
        with Clients(tmp_path / "s") as clients:
            (computed,) = await clients.connect(1, b"never\n")
            await clients.connect(MAX_CONNECTIONS - 1, b"large\n")
            await wait_for_connections(server, MAX_CONNECTIONS)
            assert await clients.ask(b"hello\n") == b"answer to hello\n"
            computing = 1
            while computing < MAX_CONNECTIONS:
                await clients.connect(1, b"never\n")
                await asyncio.sleep(0.01)
                computing = sum(not connection.is_sending for connection in server._connections)
            assert await clients.ask(b"hello\n") == b"", "every connection waits for its answer"
            computed.setblocking(False)
            with pytest.raises(BlockingIOError):
                computed.recv(1)


async def test_silent_slow_and_unreading_clients_have_a_deadline(tmp_path: Path) -> None:
    async with serve_requests(tmp_path / "s", 0.05) as server:
        with Clients(tmp_path / "s") as clients:
            (silent,), (slow,) = await clients.connect(1), await clients.connect(1, b"hel")
            assert await read_all(silent) == b""
            assert await read_all(slow) == b""
            await clients.connect(1, b"large\n")
            await wait_for_connections(server, 0)


async def test_a_lack_of_memory_for_an_answer_is_logged_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_requests(tmp_path / "s"):
        with Clients(tmp_path / "s") as clients:
            for _ in range(3):
                assert await clients.ask(b"no memory\n") == b""
            assert await clients.ask(b"hello\n") == b"answer to hello\n"
    assert [record.getMessage().split()[0] for record in caplog.records] == ["request-failed"]


async def test_a_connection_is_closed_if_there_is_no_memory_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_requests(tmp_path / "s") as server:
        with Clients(tmp_path / "s") as clients, monkeypatch.context() as patch:

            def fails(*_: object) -> str:
                raise MemoryError

            patch.setattr(module, "_origin", fails)
            assert await clients.ask(b"hello\n") == b""
        with Clients(tmp_path / "s") as clients:
            assert await clients.ask(b"hello\n") == b"answer to hello\n"
        await wait_for_connections(server, 0)


async def test_stopping_closes_silent_connections_and_waits_briefly_for_answers(tmp_path: Path) -> None:
    with Clients(tmp_path / "s") as clients:
        async with serve_requests(tmp_path / "s") as server:
            (silent,), (computed,) = await clients.connect(1), await clients.connect(1, b"never\n")
            await wait_for_connections(server, 2)
            await server.stop(0.01)
            assert await read_all(silent) == b""
            assert await read_all(computed) == b""
