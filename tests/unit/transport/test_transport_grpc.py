"""gRPC with mutual TLS: who is let in, what a failed delivery says, and what is counted."""

import asyncio
import socket
import ssl
import struct
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from sottovoce.errors import DataError, IdentityError, MessageRefused, NetworkError
from sottovoce.identity import Fleet, Identity, Trust, Validity, enrol, load
from sottovoce.identity.renewal import install_certificate, renewal_request
from sottovoce.identity.request import read_request
from sottovoce.transport import DeliveryFailed, Listener, Peer
from sottovoce.transport.grpc import METHOD, GrpcTransport

from tests.support.devices import free_port
from tests.support.fleets import beginning_tomorrow, ending_in, new_fleet
from tests.support.waiting import PATIENCE

LIMIT = 4 * 2**20
Start = Callable[..., Awaitable["Node"]]


class Node:
    """A transport that answers with what it received."""

    def __init__(self, identity: Identity, trusts: Identity | None = None) -> None:
        self.identity = identity
        self.port = free_port()
        self.received: list[tuple[str, bytes | None]] = []
        self.answer: Exception | None = None
        self.open = asyncio.Event()  # while it is clear, "slow" waits for its answer
        self.open.set()
        self.trust = Trust(replace(identity, authority=(trusts or identity).authority))
        self.transport = GrpcTransport(
            listen=f"127.0.0.1:{self.port}",
            trust=self.trust,
            reconnect=0.1,
        )

    def peer(self, node: "Node | None" = None, **changes: str) -> Peer:
        """Another node, or this one, as a peer."""
        other = node or self
        facts: dict[str, Any] = {
            "id": other.identity.node_id,
            "address": f"127.0.0.1:{other.port}",
            "name": other.identity.dns_name,
        }
        return Peer(**{**facts, **changes})

    async def receive(self, sender: str, message: bytes | None) -> bytes:
        self.received.append((sender, message))
        if message == b"slow":
            await self.open.wait()
        if self.answer is not None:
            raise self.answer
        if message is None:
            raise MessageRefused("incomplete", "it never came")
        return b"answer to " + message

    async def failure(self, peer: Peer, message: bytes = b"m", timeout: float = PATIENCE) -> DeliveryFailed:  # noqa: ASYNC109
        with pytest.raises(DeliveryFailed) as failed:
            await self.transport.deliver(peer, message, timeout)
        assert str(failed.value).startswith(f"peer {peer.id} at {peer.address}: ")
        assert "\n" not in str(failed.value)
        return failed.value

    async def delivers(self, peer: Peer, message: bytes) -> bytes:
        """Try until it is delivered, as an agent would."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    return await self.transport.deliver(peer, message, PATIENCE)
                except DeliveryFailed:
                    await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return new_fleet(tmp_path_factory.mktemp("fleet") / "authority")


@pytest.fixture(scope="module")
def namesake(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return new_fleet(tmp_path_factory.mktemp("namesake") / "authority")


@asynccontextmanager
async def listening(*nodes: Node) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for node in nodes:
            await node.transport.start(node.receive)
            stack.push_async_callback(node.transport.stop, 0.5)
        yield


@pytest.fixture
def pair(fleet: Fleet, tmp_path: Path) -> tuple[Node, Node]:
    return Node(enrol(fleet, tmp_path / "a")), Node(enrol(fleet, tmp_path / "b"))


async def becomes(condition: Callable[[], bool]) -> None:
    """Polls until it is so."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - a deadline is all that is needed
            await asyncio.sleep(0.02)


async def refused_connections(node: Node, at_least: int) -> None:
    """A handshake is only known to have failed when its time is over."""
    await becomes(lambda: node.transport.listener().refused >= at_least)


async def test_a_message_and_its_answer_cross_with_the_sender_known(pair: tuple[Node, Node]) -> None:
    one, other = pair
    async with listening(one, other):
        assert await one.transport.deliver(one.peer(other), b"hello", PATIENCE) == b"answer to hello"
        assert await other.transport.deliver(other.peer(one), b"", PATIENCE) == b"answer to "
    assert other.received == [(one.identity.node_id, b"hello")]
    assert one.received == [(other.identity.node_id, b"")]
    assert (other.transport.listener().handshakes, other.transport.listener().refused) == (1, 0)


async def test_one_connection_serves_many_messages_and_stays_counted_as_good(pair: tuple[Node, Node]) -> None:
    """Far more at once than the receiver takes: one that gRPC turns away was not received, and is tried again."""
    one, other = pair
    async with listening(one, other):
        await asyncio.gather(*(one.delivers(one.peer(other), b"%d" % i) for i in range(20)))
        assert other.transport.listener() == Listener(handshakes=1, refused=0)
    assert other.transport.listener().refused == 0
    assert sorted(int(message or b"") for _, message in other.received) == list(range(20))


async def test_nobody_listens(pair: tuple[Node, Node]) -> None:
    one, other = pair
    failed = await one.failure(one.peer(other))
    assert failed.cause == "unreachable"
    assert "nobody listens there: start the agent or correct the address" in str(failed)
    await one.transport.stop(0.1)


async def test_the_peer_is_found_as_soon_as_it_is_there(pair: tuple[Node, Node]) -> None:
    one, other = pair
    await one.failure(one.peer(other))
    async with listening(one, other):
        assert await one.delivers(one.peer(other), b"m") == b"answer to m"


async def test_a_slow_handshake_is_waited_for(pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch) -> None:
    """As over a link of long delay, or with a device that has much to do."""
    one, other = pair
    handshake = other.transport._handshake

    def slow() -> grpc.ServerCertificateConfiguration:
        time.sleep(0.5)
        return handshake()

    monkeypatch.setattr(other.transport, "_handshake", slow)
    async with listening(one, other):
        assert await one.transport.deliver(one.peer(other), b"m", PATIENCE) == b"answer to m"
        assert other.transport.listener().handshakes == 1


async def test_too_slow_an_answer_is_a_timeout_kept_by_the_transport(pair: tuple[Node, Node]) -> None:
    """The answer would never come."""
    one, other = pair
    other.open.clear()
    async with listening(one, other):
        async with asyncio.timeout(PATIENCE):
            failed = await one.failure(one.peer(other), b"slow", timeout=0.2)
        other.open.set()
    assert failed.cause == "timeout"
    assert "no answer within 0.2 s" in str(failed)


async def test_a_refused_message_says_why(pair: tuple[Node, Node]) -> None:
    one, other = pair
    other.answer = MessageRefused("shape", "it is of another model")
    async with listening(one, other):
        failed = await one.failure(one.peer(other))
    assert failed.cause == "refused"
    assert "refused the message: shape: it is of another model" in str(failed)


async def test_a_failing_device_does_not_say_what_failed(pair: tuple[Node, Node]) -> None:
    """The reason is for its owner's log, not for its peers."""
    one, other = pair
    other.answer = DataError("/var/lib/secret/state.db: cannot be written")
    async with listening(one, other):
        failed = await one.failure(one.peer(other))
    assert failed.cause == "other"
    assert "the device failed" in str(failed)
    assert "secret" not in str(failed)


async def test_a_device_that_no_longer_accepts_the_certificate_says_so(pair: tuple[Node, Node]) -> None:
    """As when it expires on an open connection."""
    one, other = pair

    def expired(pem: bytes) -> str:
        raise IdentityError("the certificate of the peer expired")

    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"m", PATIENCE)
        other.trust.authenticate = expired  # type: ignore[method-assign]
        failed = await one.failure(one.peer(other))
        assert failed.cause == "refused"
        assert "refused this device: certificate: the certificate of the peer expired" in str(failed)
    assert len(other.received) == 1


def renewed(fleet: Fleet, directory: Path, days: int) -> Identity:
    """The identity in a directory, with another certificate."""
    certificate = fleet.renew(read_request(renewal_request(directory), "r"), (), Validity.from_now(days))
    install_certificate(directory, certificate, "c")
    return load(directory)


async def test_a_new_certificate_is_shown_to_those_who_come_and_by_this_device_from_then_on(
    fleet: Fleet, tmp_path: Path
) -> None:
    """A call that is in progress ends on the channel on which it began."""
    one, other = Node(enrol(fleet, tmp_path / "one")), Node(enrol(fleet, tmp_path / "other"))
    seen: list[bytes] = []
    authenticate = other.trust.authenticate

    def remembered(pem: bytes) -> str:
        seen.append(pem)
        return authenticate(pem)

    other.trust.authenticate = remembered  # type: ignore[method-assign]
    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"m", PATIENCE)
        other.open.clear()
        slow = asyncio.ensure_future(one.transport.deliver(one.peer(other), b"slow", PATIENCE))
        await becomes(lambda: len(other.received) == 2)
        one.trust.renew(renewed(fleet, tmp_path / "one", 120))
        other.trust.renew(renewed(fleet, tmp_path / "other", 130))
        await one.transport.deliver(one.peer(other), b"m", PATIENCE)
        await other.transport.deliver(other.peer(one), b"m", PATIENCE)
        other.open.set()
        assert await slow == b"answer to slow"
        await one.transport.deliver(one.peer(other), b"m", PATIENCE)
        shown = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", other.port), timeout=PATIENCE)
    assert seen == [one.identity.tls_cert_pem] * 2 + [one.trust.identity.tls_cert_pem] * 2
    assert ssl.PEM_cert_to_DER_cert(shown) == other.trust.identity.certificate_der
    assert one.transport._retired == [], "the old channel is closed"


async def test_the_channel_to_a_device_that_is_refused_is_closed(pair: tuple[Node, Node]) -> None:
    one, other = pair
    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"m", PATIENCE)
        one.trust.revoke([other.identity.node_id])
        assert not one.transport._ways
        await one.transport._close_spare()
        assert not one.transport._retired


@pytest.mark.parametrize("size", [LIMIT + 1, 25 * LIMIT])
async def test_a_message_over_the_limit_never_arrives_and_the_receiver_is_told(
    pair: tuple[Node, Node], size: int
) -> None:
    one, other = pair
    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"small", PATIENCE)
        failed = await one.failure(one.peer(other), b"\0" * size)
        assert failed.cause == "busy"
        assert "the message is too large for it" in str(failed)
        await one.transport.deliver(one.peer(other), b"small", PATIENCE)
    assert [message for _, message in other.received] == [b"small", None, b"small"]


async def test_a_message_at_the_limit_arrives(pair: tuple[Node, Node]) -> None:
    one, other = pair
    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"\0" * (LIMIT - 100), PATIENCE)
    assert len(other.received[0][1] or b"") == LIMIT - 100


async def test_another_device_than_meant_gets_nothing(pair: tuple[Node, Node], fleet: Fleet, tmp_path: Path) -> None:
    one, other = pair
    third = enrol(fleet, tmp_path / "third")
    async with listening(one, other):
        failed = await one.failure(one.peer(other, id=third.node_id, name=third.dns_name))
        assert failed.cause == "tls"
        assert "another device answers there: correct the peer's id or address" in str(failed)
        await refused_connections(other, 1)
    assert other.received == []


async def test_a_device_of_another_fleet_of_the_same_name_is_not_trusted(
    pair: tuple[Node, Node], namesake: Fleet, tmp_path: Path
) -> None:
    one, other = pair
    stranger = Node(enrol(namesake, tmp_path / "stranger"))
    async with listening(one, stranger):
        for dialling, listens in ((one, stranger), (stranger, one)):
            failed = await dialling.failure(dialling.peer(listens))
            assert failed.cause == "tls"
            assert "its certificate is not of this fleet: check that both joined the same fleet" in str(failed)
    assert (one.received, stranger.received, other.received) == ([], [], [])


async def test_a_stranger_that_trusts_the_fleet_is_not_trusted_by_it(
    pair: tuple[Node, Node], namesake: Fleet, tmp_path: Path
) -> None:
    one, _ = pair
    stranger = Node(enrol(namesake, tmp_path / "stranger"), trusts=one.identity)
    async with listening(one):
        failed = await stranger.failure(stranger.peer(one))
        assert failed.cause == "rejected"
        assert "it may not accept this device's certificate (expired, or of another fleet)" in str(failed)
        await refused_connections(one, 1)
        await stranger.transport.stop(0.1)
    assert one.received == []


@pytest.mark.parametrize(
    "validity, words",
    [(ending_in(-60), "its certificate has expired"), (beginning_tomorrow(), "its certificate is not yet valid")],
)
async def test_a_certificate_out_of_its_time_is_trusted_by_neither_side(
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
        assert ("this device's certificate expired on" in str(failed)) == (words == "its certificate has expired")
    assert (one.received, stale.received) == ([], [])


def closes(_: socket.socket) -> None:
    pass


def resets(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def speaks_http(connection: socket.socket) -> None:
    connection.recv(10)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@contextmanager
def answering(behaviour: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port on which every connection is treated like this, then closed."""
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


@pytest.mark.parametrize("behaviour", [closes, resets, speaks_http])
async def test_what_is_not_an_agent_is_told_apart_from_nobody(
    pair: tuple[Node, Node], behaviour: Callable[[socket.socket], None]
) -> None:
    one, _ = pair
    with answering(behaviour) as port:
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
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await channel.unary_unary(METHOD)(b"m", timeout=PATIENCE)
            assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
        await one.transport.deliver(one.peer(other), b"m", PATIENCE)
        listener = other.transport.listener
        await becomes(lambda: listener().handshakes >= 5)  # a client may try more than once
        await becomes(lambda: listener().refused == listener().handshakes - 1)
    assert len(other.received) == 1


@pytest.mark.parametrize("listen", ["127.0.0.1:{used}", "192.0.2.1:7400", "no-such-host.invalid:7400"])
async def test_an_address_that_cannot_be_listened_on(fleet: Fleet, tmp_path: Path, listen: str) -> None:
    node = Node(enrol(fleet, tmp_path / "a"))
    with socket.create_server(("127.0.0.1", 0)) as used:
        node.transport._listen = listen.format(used=used.getsockname()[1])
        with pytest.raises(NetworkError, match=r"cannot listen on .*change transport\.listen or stop what uses it"):
            await node.transport.start(node.receive)
    await node.transport.stop(0.1)


async def test_two_agents_never_share_a_port(pair: tuple[Node, Node]) -> None:
    one, other = pair
    other.transport._listen = one.transport._listen
    async with listening(one):
        with pytest.raises(NetworkError):
            await other.transport.start(other.receive)


async def test_stopped_it_is_gone_and_may_be_stopped_again(pair: tuple[Node, Node]) -> None:
    one, other = pair
    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"m", PATIENCE)
        await other.transport.stop(0.5)
        async with asyncio.timeout(PATIENCE):
            while (failed := await one.failure(one.peer(other))).cause != "unreachable":
                assert failed.cause == "rejected", "until it has seen that the connection is closed"
                await asyncio.sleep(0.02)
        await other.transport.stop(0.5)
        await one.transport.stop(0.5)
        stopping = await one.failure(one.peer(other))
        assert stopping.cause == "unreachable", "and no defect, whoever still has something to deliver"
        assert "this device is stopping" in str(stopping)


async def test_one_device_cannot_keep_the_others_out(pair: tuple[Node, Node], fleet: Fleet, tmp_path: Path) -> None:
    """Four of its calls may wait; one more, over another connection, is turned away, and another device is served."""
    one, other = pair
    twin, third = Node(one.identity), Node(enrol(fleet, tmp_path / "c"))
    async with listening(other):
        other.open.clear()
        waiting = [asyncio.create_task(one.transport.deliver(one.peer(other), b"slow", PATIENCE)) for _ in range(4)]
        await becomes(lambda: len(other.received) == 4)
        assert (await twin.failure(twin.peer(other))).cause == "busy"
        assert await third.transport.deliver(third.peer(other), b"me too", PATIENCE) == b"answer to me too"
        other.open.set()
        assert await asyncio.gather(*waiting) == [b"answer to slow"] * 4
        assert await twin.transport.deliver(twin.peer(other), b"again", PATIENCE) == b"answer to again"
    for node in (one, twin, third):
        await node.transport.stop(0.5)
