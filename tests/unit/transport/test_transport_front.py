"""Numerous, patient and rude strangers: they have a limit and a deadline, and known devices are not affected."""

import asyncio
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from sottovoce.net.transports import front
from sottovoce.net.transports.front import ConnectionGate

from tests.support.waiting import TIMEOUT, eventually

HELLO = b"\x16hello"
FEW = 8


class Inside:
    """Stand-in for gRPC that answers each line, and knows its connection."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        name = writer.get_extra_info("peername")
        self.names.append("unix-abstract:" + (name.decode() if isinstance(name, bytes) else name).removeprefix("\0"))
        with contextlib.suppress(OSError):
            while chunk := await reader.read(2**16):
                writer.write(b"answer to " + chunk)
                await writer.drain()


@dataclass
class Caller:
    """A client outside the fleet."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def hears(self) -> bytes:
        """Return the other side's data, or b"" after it disconnects."""
        async with asyncio.timeout(TIMEOUT):
            with contextlib.suppress(ConnectionResetError):
                return await self.reader.read(2**16)
        return b""

    async def is_answered(self) -> bool:
        self.writer.write(HELLO)
        return await self.hears() == b"answer to " + HELLO

    async def is_cut_off(self) -> bool:
        return await self.hears() == b""


class Dial(Protocol):
    """Function that connects."""

    async def __call__(self, begin: bytes = b"", source: str = "127.0.0.1") -> Caller: ...


@contextlib.asynccontextmanager
async def run_front() -> AsyncIterator[tuple[ConnectionGate, Inside, Dial]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    front, inside, callers = ConnectionGate(), Inside(), []
    server = await asyncio.start_unix_server(inside.serve, front.socket_path())
    await front.start("127.0.0.1", port)

    async def dial(begin: bytes = b"", source: str = "127.0.0.1") -> Caller:
        callers.append(Caller(*await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))))
        callers[-1].writer.write(begin)
        return callers[-1]

    try:
        yield front, inside, dial
    finally:
        await front.stop(0.0)
        server.close()
        for writer in (*inside.writers, *(caller.writer for caller in callers)):
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def wait_for_counts(front: ConnectionGate, accepted: int) -> None:
    await eventually(lambda: front.accepted >= accepted, f"{accepted} are accepted")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "_connection_limit", lambda: FEW)


async def test_bytes_pass_both_ways_and_a_connection_with_a_call_counts_as_accepted() -> None:
    async with run_front() as (found, inside, dial):
        caller = await dial()
        assert await caller.is_answered()
        found.admit(inside.names[0], "meter-17")
        caller.writer.close()
    assert (found.accepted, found.turned_away) == (1, 0)


async def test_non_tls_connections_never_reach_grpc() -> None:
    async with run_front() as (found, inside, dial):
        assert await (await dial(b"GET / HTTP/1.1\r\n\r\n")).is_cut_off()
        assert (inside.names, found.turned_away) == ([], 1)


@pytest.mark.usefixtures("few")
async def test_waiting_strangers_make_room_for_an_honest_client() -> None:
    async with run_front() as (found, inside, dial):
        idle = [await dial() for _ in range(5 * FEW)]
        await wait_for_counts(found, 5 * FEW)
        assert await (await dial()).is_answered()
        assert all([await stranger.is_cut_off() for stranger in idle[: 4 * FEW + 1]])
        assert found.turned_away == 4 * FEW + 1
        assert len(inside.names) == 1


@pytest.mark.usefixtures("few")
async def test_the_address_with_the_most_strangers_loses_a_connection() -> None:
    async with run_front() as (found, _, dial):
        lonely = await dial(source="127.0.0.2")
        await wait_for_counts(found, 1)
        crowd = [await dial() for _ in range(2 * FEW)]
        await wait_for_counts(found, 2 * FEW + 1)
        assert await crowd[0].is_cut_off()
        assert await lonely.is_answered()


async def test_a_stranger_has_a_deadline_and_a_known_device_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "_STRANGER_SECONDS", 0.5)
    async with run_front() as (found, inside, dial):
        known = await dial()
        assert await known.is_answered()
        found.admit(inside.names[0], "meter-17")
        strange = await dial()
        assert await strange.is_answered()
        assert await strange.is_cut_off()
        assert await known.is_answered()


async def test_a_device_s_connections_are_limited_and_its_newest_are_kept() -> None:
    async with run_front() as (found, inside, dial):
        connections = []
        for _ in range(6):
            connections.append(await dial())
            assert await connections[-1].is_answered()
            found.admit(inside.names[-1], "meter-17")
        assert await connections[0].is_cut_off()
        assert await connections[1].is_cut_off()
        assert await connections[2].is_answered()


async def test_connections_reach_grpc_even_if_its_socket_was_removed() -> None:
    async with run_front() as (found, _, dial):
        shutil.rmtree(Path(found.socket_path()).parent)
        assert await (await dial()).is_answered()
        assert found.trouble == ""


async def test_connections_that_do_not_reach_grpc_are_reported_until_they_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(front, "_PROBE_SECONDS", 0.01)
    async with run_front() as (found, _, dial):
        way, found._grpc_path = found._grpc_path, "/absent"
        for _ in range(3):
            assert await (await dial(HELLO)).is_cut_off()
        assert "[Errno 2]" in found.trouble
        found._grpc_path = way
        await eventually(lambda: not found.trouble, "gRPC is reached again")
        assert await (await dial()).is_answered()
    assert [record.getMessage().split()[0] for record in caplog.records] == ["peers-cut-off"]


def test_the_limit_leaves_descriptors_for_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, bound in ((2**20, 128), (1024, 128), (512, 42), (64, 8)):
        monkeypatch.setattr("resource.getrlimit", lambda _, soft=soft: (soft, soft))
        assert front._connection_limit() == bound
