"""gRPC with mutual TLS: the accepted peers, the message of a failed delivery, and the counters."""

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pytest
from sottovoce.errors import DataError, IdentityError, MessageRefused, NetworkError
from sottovoce.identity import Fleet, Identity, Validity, enrol, load
from sottovoce.identity.renewal import install_certificate, renewal_request
from sottovoce.identity.request import read_request
from sottovoce.transport import Listener

from tests.support.grpc_nodes import LIMIT, Node, becomes, listening
from tests.support.waiting import PATIENCE

Start = Callable[..., Awaitable["Node"]]


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
    assert "nothing listens there: start the agent or correct the address" in str(failed)
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
        assert not one.transport._channels
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
        assert "the message is too large" in str(failed)
        await one.transport.deliver(one.peer(other), b"small", PATIENCE)
    assert [message for _, message in other.received] == [b"small", None, b"small"]


async def test_a_message_at_the_limit_arrives(pair: tuple[Node, Node]) -> None:
    one, other = pair
    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"\0" * (LIMIT - 100), PATIENCE)
    assert len(other.received[0][1] or b"") == LIMIT - 100


@pytest.mark.parametrize(
    "listen, why",
    [
        ("127.0.0.1:{used}", ": .*: "),
        ("192.0.2.1:7400", ": .*: "),
        ("no-such-host.invalid:7400", ", because the host name is unknown; "),
    ],
)
async def test_an_address_that_cannot_be_listened_on(fleet: Fleet, tmp_path: Path, listen: str, why: str) -> None:
    node = Node(enrol(fleet, tmp_path / "a"))
    with socket.create_server(("127.0.0.1", 0)) as used:
        node.transport._listen = listen.format(used=used.getsockname()[1])
        with pytest.raises(NetworkError, match=rf"transport\.listen: cannot listen on {node.transport._listen}{why}"):
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
