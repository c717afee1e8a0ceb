"""gRPC strangers: wrong recipients, devices outside the fleet, and peers that are not agents."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from sottovoce.net.transports.grpc import METHOD
from sottovoce_operator.fleet import Fleet, enrol

from tests.support.fleets import beginning_tomorrow, validity_ending_in
from tests.support.grpc_nodes import Node, listening, refused_connections
from tests.support.waiting import TIMEOUT, eventually


async def test_an_unintended_device_receives_nothing(pair: tuple[Node, Node], fleet: Fleet, tmp_path: Path) -> None:
    one, other = pair
    third = enrol(fleet, tmp_path / "third")
    async with listening(one, other):
        failed = await one.failure(one.peer(other, id=third.node_id, name=third.dns_name))
        assert failed.cause == "tls"
        assert "another device" in str(failed)
        await refused_connections(other, 1)
    assert other.received == []


async def test_a_device_from_another_fleet_with_the_same_name_is_not_trusted(
    pair: tuple[Node, Node], namesake: Fleet, tmp_path: Path
) -> None:
    one, other = pair
    stranger = Node(enrol(namesake, tmp_path / "stranger"))
    async with listening(one, stranger):
        for dialling, listens in ((one, stranger), (stranger, one)):
            failed = await dialling.failure(dialling.peer(listens))
            assert failed.cause == "tls"
            assert "belong" in str(failed)
    assert (one.received, stranger.received, other.received) == ([], [], [])


async def test_the_fleet_does_not_trust_a_stranger_that_trusts_it(
    pair: tuple[Node, Node], namesake: Fleet, tmp_path: Path
) -> None:
    one, _ = pair
    stranger = Node(enrol(namesake, tmp_path / "stranger"), trusts=one.identity)
    async with listening(one):
        failed = await stranger.failure(stranger.peer(one))
        assert failed.cause == "rejected"
        assert "rejected" in str(failed)
        await refused_connections(one, 1)
        await stranger.transport.stop(0.1)
    assert one.received == []


@pytest.mark.parametrize(
    "validity, words",
    [
        (validity_ending_in(-60), "expired"),
        (beginning_tomorrow(), "yet"),
    ],
)
async def test_neither_side_trusts_a_certificate_outside_its_validity(
    pair: tuple[Node, Node], fleet: Fleet, tmp_path: Path, validity: object, words: str
) -> None:
    one, _ = pair
    stale = Node(enrol(fleet, tmp_path / "stale", validity=validity))  # type: ignore[arg-type]
    async with listening(one, stale):
        failed = await one.failure(one.peer(stale))
        assert failed.cause == "tls"
        assert words in str(failed)
        failed = await stale.failure(stale.peer(one))
        assert failed.cause == "rejected"
        assert ("sottovoce fleet renew" in str(failed)) == (words == "expired")
    assert (one.received, stale.received) == ([], [])


def close_connection(_: socket.socket) -> None:
    pass


def reset_connection(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def answer_http(connection: socket.socket) -> None:
    connection.recv(10)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@contextmanager
def serve_connections(behaviour: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve a port on which every connection is handled by a function and then closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        behaviour(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("behaviour", [close_connection, reset_connection, answer_http])
async def test_a_server_that_is_not_an_agent_is_distinguished_from_an_absent_one(
    pair: tuple[Node, Node], behaviour: Callable[[socket.socket], None]
) -> None:
    one, _ = pair
    with serve_connections(behaviour) as port:
        failed = await one.failure(one.peer(address=f"127.0.0.1:{port}"))
        await one.transport.stop(0.1)
    assert failed.cause == "rejected"
    assert "not an agent" in str(failed)


async def test_each_connection_without_a_call_is_counted_once(pair: tuple[Node, Node]) -> None:
    one, other = pair
    async with listening(one, other):
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", other.port)) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        async with grpc.aio.insecure_channel(f"127.0.0.1:{other.port}") as channel:
            with pytest.raises(grpc.aio.AioRpcError) as exc_info:
                await channel.unary_unary(METHOD)(b"m", timeout=TIMEOUT)
            assert exc_info.value.code() is grpc.StatusCode.UNAVAILABLE
        await one.transport.deliver(one.peer(other), b"m", TIMEOUT)
        listener = other.transport.listener
        await eventually(lambda: listener().handshakes >= 5)  # a client may try several times
        await eventually(lambda: listener().refused == listener().handshakes - 1)
    assert len(other.received) == 1


async def test_one_device_cannot_block_the_others(pair: tuple[Node, Node], fleet: Fleet, tmp_path: Path) -> None:
    """Four of its calls may wait; a fifth, over another connection, is refused, and another device is served."""
    one, other = pair
    twin, third = Node(one.identity), Node(enrol(fleet, tmp_path / "c"))
    async with listening(other):
        other.open.clear()
        waiting = [asyncio.create_task(one.transport.deliver(one.peer(other), b"slow", TIMEOUT)) for _ in range(4)]
        await eventually(lambda: len(other.received) == 4)
        assert (await twin.failure(twin.peer(other))).cause == "busy"
        assert await third.transport.deliver(third.peer(other), b"me too", TIMEOUT) == b"answer to me too"
        other.open.set()
        assert await asyncio.gather(*waiting) == [b"answer to slow"] * 4
        assert await twin.transport.deliver(twin.peer(other), b"again", TIMEOUT) == b"answer to again"
    for node in (one, twin, third):
        await node.transport.stop(0.5)
