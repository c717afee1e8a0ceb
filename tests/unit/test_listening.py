"""Accepting connections while the system refuses them: it continues after pauses, without busy-waiting."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

import pytest
from sottovoce.net import listening
from sottovoce.net.listening import Acceptor

from tests.support.waiting import TIMEOUT, eventually, let_others_run

EMFILE = OSError(errno.EMFILE, "Too many open files")


class Listening:
    """A listening socket that refuses at first."""

    def __init__(self, *refusals: Exception) -> None:
        self.real = socket.create_server(("127.0.0.1", 0))
        self.refusals = list(refusals)
        self.setblocking, self.fileno, self.close = self.real.setblocking, self.real.fileno, self.real.close

    def accept(self) -> Any:
        if self.refusals:
            raise self.refusals.pop(0)
        return self.real.accept()


class Bench:
    """An acceptor that stores its accepted connections."""

    def __init__(self, *refusals: Exception, opened: Callable[[socket.socket], float] = lambda caller: 0.0) -> None:
        self.listening = Listening(*refusals)
        self.address = self.listening.real.getsockname()
        self.failures: list[Exception] = []
        self.accepted: list[socket.socket] = []
        self.times: list[float] = []
        self._opened = opened
        self.acceptor = Acceptor(self.listening, self.keep, self.failures.append)  # type: ignore[arg-type]

    def keep(self, caller: socket.socket, address: Any) -> float:
        assert address[0] == "127.0.0.1"
        pause = self._opened(caller)
        self.accepted.append(caller)
        self.times.append(asyncio.get_running_loop().time())
        return pause

    async def connect(self, count: int = 1) -> None:
        """Connect this many clients, and wait until they are accepted."""
        loop, expected = asyncio.get_running_loop(), len(self.accepted) + count
        for _ in range(count):
            with socket.socket() as client:
                client.setblocking(False)
                await loop.sock_connect(client, self.address)
        await eventually(lambda: len(self.accepted) >= expected, "the clients are accepted")

    def close(self) -> None:
        self.acceptor.stop()
        for caller in self.accepted:
            caller.close()


@pytest.mark.parametrize("refusal", [EMFILE, MemoryError()])
async def test_a_refusal_is_retried_after_growing_pauses(refusal: Exception) -> None:
    bench, loop = Bench(*[refusal] * 4), asyncio.get_running_loop()
    began = loop.time()
    await bench.connect(2)
    assert loop.time() - began > 0.01 + 0.02 + 0.04 + 0.08
    assert bench.failures == [refusal] * 4
    bench.close()


async def test_pauses_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_LONGEST_PAUSE", 0.01)
    bench = Bench(*[EMFILE] * 20)
    await asyncio.wait_for(bench.connect(), 5)
    bench.close()


async def test_a_client_that_has_disconnected_is_not_a_failure() -> None:
    bench = Bench(ConnectionAbortedError())
    await bench.connect()
    assert bench.failures == []
    bench.close()


async def test_a_connection_that_cannot_be_handled_is_closed() -> None:
    refused: list[socket.socket] = []

    def opened(caller: socket.socket) -> float:
        if not refused:
            refused.append(caller)
            raise MemoryError
        return 0.0

    bench = Bench(opened=opened)
    with socket.create_connection(bench.address) as client:
        client.setblocking(False)
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), TIMEOUT) == b""
    assert refused[0].fileno() == -1
    await bench.connect()
    bench.close()


async def test_the_pause_between_two_connections_is_kept() -> None:
    bench = Bench(opened=lambda caller: 0.05)
    await bench.connect(3)
    assert all(later - earlier >= 0.05 for earlier, later in zip(bench.times, bench.times[1:], strict=False))
    bench.close()


async def test_without_memory_for_a_pause_it_neither_busy_waits_nor_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, loop = Bench(*[EMFILE] * 3), asyncio.get_running_loop()
    began = loop.time()
    with monkeypatch.context() as patch:

        def fails(*_: object) -> None:
            raise MemoryError

        patch.setattr(bench.acceptor._loop, "call_later", fails)
        with socket.socket() as client:
            client.setblocking(False)
            await loop.sock_connect(client, bench.address)
            while not bench.accepted:
                await let_others_run()
    assert loop.time() - began > 0.03
    bench.close()


async def test_nothing_is_accepted_after_the_end() -> None:
    bench = Bench()
    bench.close()
    with pytest.raises(ConnectionRefusedError):
        await bench.connect()
