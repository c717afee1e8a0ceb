"""Monitoring pages: valid requests are answered, and all other input has no effect."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sottovoce.errors import NetworkError
from sottovoce.net import page_server as module
from sottovoce.net.page_server import PageServer
from sottovoce.net.request_server import MAX_CONNECTIONS
from sottovoce.ops.health import health
from sottovoce.ops.page import Page, text_page

from tests.support.devices import free_port
from tests.support.waiting import eventually, until


async def _page() -> Page:
    return Page(200, "text/plain", b"all is well\n")


async def _defect() -> Page:
    raise ZeroDivisionError("no")


async def _never() -> Page:
    await asyncio.Event().wait()
    return text_page(200, "never")


@asynccontextmanager
async def serve_pages() -> AsyncIterator[tuple[PageServer, int]]:
    page_server, port = PageServer({"/page": _page, "/defect": _defect, "/never": _never}), free_port()
    await page_server.start("127.0.0.1", port)
    try:
        yield page_server, port
    finally:
        await page_server.stop()


async def read_response(port: int, *sent: bytes) -> bytes:
    """Return everything that arrives until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for some in sent:
            writer.write(some)
            await writer.drain()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_page_is_answered_completely_and_the_connection_ends() -> None:
    async with serve_pages() as (_, port):
        answer = await read_response(port, b"GET /page?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert b"\r\nContent-Length: 12\r\n" in answer
    assert answer.endswith(b"\r\n\r\nall is well\n")


async def test_a_request_may_arrive_byte_by_byte() -> None:
    async with serve_pages() as (_, port):
        request = b"GET /page HTTP/1.0\r\n\r\n"
        answer = await read_response(port, *(request[i : i + 1] for i in range(len(request))))
    assert answer.endswith(b"all is well\n")


async def test_head_is_answered_without_a_body() -> None:
    async with serve_pages() as (_, port):
        answer = await read_response(port, b"HEAD /page HTTP/1.1\r\n\r\n")
    assert b"Content-Length: 12\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "request_, status",
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /page/../page HTTP/1.1\r\n\r\n", 404),
        (b"POST /page HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"get /page HTTP/1.1\r\n\r\n", 400),
        (b"GET http://else.where/page HTTP/1.1\r\n\r\n", 400),
        (b"GET /page\r\n\r\n", 400),
        (b"GET /page HTTP/2.0\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
        (b"GET /\xff\x00 HTTP/1.1\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /page HTTP/1.1\r\nX: " + b"x" * 9000, 431),
    ],
)
async def test_an_invalid_request_gets_an_error(request_: bytes, status: int) -> None:
    async with serve_pages() as (_, port):
        answer = await read_response(port, request_)
        assert answer.startswith(b"HTTP/1.0 %d " % status)
        assert (await read_response(port, b"GET /page HTTP/1.0\r\n\r\n")).endswith(b"all is well\n")


async def test_an_oversized_request_is_not_read() -> None:
    async with serve_pages() as (page_server, port):
        await asyncio.wait_for(read_response(port, *[b"x" * 65536] * 64), 20)
        assert (await read_response(port, b"GET /page HTTP/1.0\r\n\r\n")).endswith(b"all is well\n")
        assert page_server.connections == 0


async def test_a_slow_client_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_SECONDS", 0.05)
    async with serve_pages() as (page_server, port):
        assert await asyncio.wait_for(read_response(port, b"GET /page HTT"), 20) == b""
        late = await asyncio.wait_for(read_response(port, b"GET /never HTTP/1.0\r\n\r\n"), 20)
        assert late.startswith(b"HTTP/1.0 503 ")
        assert page_server.connections == 0


async def test_silent_connections_do_not_block_a_scrape() -> None:
    async with serve_pages() as (page_server, port):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS)]
        await asyncio.to_thread(until, lambda: page_server.connections == MAX_CONNECTIONS, "all are connected")
        for _ in range(48):
            assert (await read_response(port, b"GET /page HTTP/1.0\r\n\r\n")).endswith(b"all is well\n")
        assert await silent[0][0].read() == b"", "the oldest is closed"
        for _, writer in silent:
            writer.close()


async def test_a_failing_page_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with serve_pages() as (_, port):
        with caplog.at_level(logging.ERROR):
            assert (await read_response(port, b"GET /defect HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.0 500 ")
            await read_response(port, b"GET /defect HTTP/1.0\r\n\r\n")
        assert (await read_response(port, b"GET /page HTTP/1.0\r\n\r\n")).endswith(b"all is well\n")
    assert [record.getMessage().split()[0] for record in caplog.records] == ["page-failed"]


async def test_waiting_clients_are_disconnected_at_the_end() -> None:
    async with serve_pages() as (page_server, port):
        waiting = asyncio.ensure_future(read_response(port, b"GET /never HTTP/1.0\r\n\r\n"))
        await asyncio.to_thread(until, lambda: page_server.connections, "it is connected")
    assert await asyncio.wait_for(waiting, 20) == b""
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_an_address_in_use_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            NetworkError, match=rf"observe\.metrics: cannot listen on 127\.0\.0\.1:{port}: address already in use"
        ):
            await PageServer({}).start("127.0.0.1", port)


def test_health_lists_what_is_wrong_and_what_is_not() -> None:
    good, bad = health({"a": "", "b": ""}), health({"a": "", "b": "it is broken"})
    assert (good.status, good.body) == (200, b'{"healthy": true, "checks": {"a": "ok", "b": "ok"}}\n')
    assert (bad.status, bad.body) == (503, b'{"healthy": false, "checks": {"a": "ok", "b": "it is broken"}}\n')


async def test_a_page_is_made_at_most_once_a_second_and_sent_at_once_if_it_is_recent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = 0

    async def page() -> Page:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        return text_page(200, f"{made}")

    server = PageServer({"/page": page})
    assert server._ready_answer(b"GET /page HTTP/1.0\r\n\r\n") is None
    request = b"GET /page HTTP/1.0\r\n\r\n"
    assert {(await server.page(request))[0].body for _ in range(3)} == {b"1\n"}
    assert await asyncio.gather(*(server.page(request) for _ in range(3))) == [(text_page(200, "1"), False)] * 3
    ready = server._ready_answer(request)
    assert ready is not None
    assert ready.endswith(b"\r\n\r\n1\n")
    monkeypatch.setattr("sottovoce.net.page_server._FRESH_SECONDS", -1.0)
    assert (await server.page(request))[0].body == b"1\n", "the last page, while the next one is made"
    await eventually(lambda: made == 2)
    monkeypatch.setattr("sottovoce.net.page_server._STALE_SECONDS", -1.0)
    assert (await server.page(request))[0].body == b"3\n"


async def test_a_page_that_failed_is_made_again() -> None:
    async def fail_once() -> Page:
        if next(attempts) == 0:
            raise ValueError("once")
        return text_page(200, "well")

    attempts = iter(range(9))
    server = PageServer({"/page": fail_once})
    request = b"GET /page HTTP/1.0\r\n\r\n"
    assert [(await server.page(request))[0].status for _ in range(2)] == [500, 200]


async def test_clients_that_read_nothing_or_send_slowly_do_not_delay_a_scrape() -> None:
    """More connections than the server accepts at a time, and each scrape is answered."""
    async with serve_pages() as (_, port):
        loop, held = asyncio.get_running_loop(), []
        for word in (b"GET /page HTTP/1.0\r\n\r\n", b"GET /pa", b""):
            for _ in range(3 * MAX_CONNECTIONS):
                client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", port))
                await loop.sock_sendall(client, word)
                held.append(client)
            async with asyncio.timeout(5.0):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /page HTTP/1.0\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.0 200")
                writer.close()
        for client in held:
            client.close()
