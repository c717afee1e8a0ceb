"""gRPC with mutual TLS: the accepted peers, the message of a failed delivery, and the counters."""

import asyncio
import gc
import socket
import ssl
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc
import pytest
from sottovoce.errors import DataError, IdentityError, MessageRefused, NetworkError
from sottovoce.fleet import Identity, Validity, load
from sottovoce.fleet.renewal import install_certificate, make_renewal_request
from sottovoce.net.transports import Listener, front
from sottovoce.net.transports.grpc import METHOD
from sottovoce.net.transports.reads import Reads
from sottovoce_operator.fleet import Fleet, enrol
from sottovoce_operator.fleet.request import read_request

from tests.support.grpc_nodes import LIMIT, Node, listening
from tests.support.waiting import TIMEOUT, eventually

Start = Callable[..., Awaitable["Node"]]


async def test_a_message_and_its_answer_are_exchanged_and_the_sender_is_known(pair: tuple[Node, Node]) -> None:
    one, other = pair
    async with listening(one, other):
        assert await one.transport.deliver(one.peer(other), b"hello", TIMEOUT) == b"answer to hello"
        assert await other.transport.deliver(other.peer(one), b"", TIMEOUT) == b"answer to "
    assert other.received == [(one.identity.node_id, b"hello")]
    assert one.received == [(other.identity.node_id, b"")]
    assert (other.transport.listener().handshakes, other.transport.listener().refused) == (1, 0)


async def test_one_connection_serves_many_messages_and_counts_as_accepted(pair: tuple[Node, Node]) -> None:
    """A call that gRPC refuses because there are too many at once was not received, and is retried."""
    one, other = pair
    async with listening(one, other):
        await asyncio.gather(*(one.deliver_with_retries(one.peer(other), b"%d" % i) for i in range(20)))
        assert other.transport.listener() == Listener(handshakes=1, refused=0)
    assert other.transport.listener().refused == 0
    assert sorted(int(message or b"") for _, message in other.received) == list(range(20))


async def test_an_address_without_a_listener(pair: tuple[Node, Node]) -> None:
    one, other = pair
    failed = await one.failure(one.peer(other))
    assert failed.cause == "unreachable"
    assert "listens" in str(failed)
    await one.transport.stop(0.1)


async def test_a_peer_is_reached_as_soon_as_it_listens(pair: tuple[Node, Node]) -> None:
    one, other = pair
    await one.failure(one.peer(other))
    async with listening(one, other):
        assert await one.deliver_with_retries(one.peer(other), b"m") == b"answer to m"


async def test_a_slow_handshake_is_waited_for(pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow handshake resembles one over a slow link, or with a busy device."""
    one, other = pair
    handshake = other.transport._handshake

    def slow() -> grpc.ServerCertificateConfiguration:
        time.sleep(0.5)
        return handshake()

    monkeypatch.setattr(other.transport, "_handshake", slow)
    async with listening(one, other):
        assert await one.transport.deliver(one.peer(other), b"m", TIMEOUT) == b"answer to m"
        assert other.transport.listener().handshakes == 1


async def test_the_transport_enforces_the_answer_s_timeout(pair: tuple[Node, Node]) -> None:
    """Otherwise, the answer would never arrive."""
    one, other = pair
    other.open.clear()
    async with listening(one, other):
        async with asyncio.timeout(TIMEOUT):
            failed = await one.failure(one.peer(other), b"slow", timeout=0.2)
        other.open.set()
    assert failed.cause == "timeout"
    assert "0.2 s" in str(failed)


async def test_a_refused_message_states_the_reason(pair: tuple[Node, Node]) -> None:
    one, other = pair
    other.answer = MessageRefused("shape", "it is of another model")
    async with listening(one, other):
        failed = await one.failure(one.peer(other))
    assert failed.cause == "refused"
    assert "shape: " in str(failed)


async def test_a_failing_device_does_not_reveal_the_cause(pair: tuple[Node, Node]) -> None:
    """The cause is for its owner's log, not for its peers."""
    one, other = pair
    other.answer = DataError("/var/lib/secret/state.db: cannot be written")
    async with listening(one, other):
        failed = await one.failure(one.peer(other))
    assert failed.cause == "other"
    assert "receiving" in str(failed)
    assert "secret" not in str(failed)


async def test_a_device_that_no_longer_accepts_the_certificate_states_it(pair: tuple[Node, Node]) -> None:
    """An example is a certificate that expires on an open connection."""
    one, other = pair

    def expired(pem: bytes) -> str:
        raise IdentityError("the certificate of the peer expired")

    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"m", TIMEOUT)
        other.trust.authenticate = expired  # type: ignore[method-assign]
        failed = await one.failure(one.peer(other))
        assert failed.cause == "refused"
        assert "certificate: " in str(failed)
    assert len(other.received) == 1


def renew_identity(fleet: Fleet, directory: Path, days: int) -> Identity:
    """Return the identity from a directory, with another certificate."""
    certificate = fleet.renew(read_request(make_renewal_request(directory), "r"), (), Validity.from_now(days))
    install_certificate(directory, certificate, "c")
    return load(directory)


async def test_a_new_certificate_is_used_for_incoming_and_outgoing_connections(fleet: Fleet, tmp_path: Path) -> None:
    """A call in progress ends on its original channel."""
    one, other = Node(enrol(fleet, tmp_path / "one")), Node(enrol(fleet, tmp_path / "other"))
    observed: list[bytes] = []
    authenticate = other.trust.authenticate

    def remembered(pem: bytes) -> str:
        observed.append(pem)
        return authenticate(pem)

    other.trust.authenticate = remembered  # type: ignore[method-assign]
    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"m", TIMEOUT)
        other.open.clear()
        slow = asyncio.ensure_future(one.transport.deliver(one.peer(other), b"slow", TIMEOUT))
        await eventually(lambda: len(other.received) == 2)
        one.trust.renew(renew_identity(fleet, tmp_path / "one", 120))
        other.trust.renew(renew_identity(fleet, tmp_path / "other", 130))
        await one.transport.deliver(one.peer(other), b"m", TIMEOUT)
        await other.transport.deliver(other.peer(one), b"m", TIMEOUT)
        other.open.set()
        assert await slow == b"answer to slow"
        await one.transport.deliver(one.peer(other), b"m", TIMEOUT)
        output = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", other.port), timeout=TIMEOUT)
    assert observed == [one.identity.tls_cert_pem] * 2 + [one.trust.identity.tls_cert_pem] * 2
    assert ssl.PEM_cert_to_DER_cert(output) == other.trust.identity.certificate_der
    assert one.transport._retired == [], "the old channel is closed"


async def test_the_channel_to_a_refused_device_is_closed(pair: tuple[Node, Node]) -> None:
    one, other = pair
    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"m", TIMEOUT)
        one.trust.revoke([other.identity.node_id])
        assert not one.transport._channels
        await one.transport._close_spare()
        assert not one.transport._retired


@pytest.mark.parametrize("size", [LIMIT + 1, 25 * LIMIT])
async def test_an_oversized_message_never_arrives_and_the_receiver_is_informed(
    pair: tuple[Node, Node], size: int
) -> None:
    one, other = pair
    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"small", TIMEOUT)
        failed = await one.failure(one.peer(other), b"\0" * size)
        assert failed.cause == "busy"
        assert "large" in str(failed)
        await one.transport.deliver(one.peer(other), b"small", TIMEOUT)
    assert [message for _, message in other.received] == [b"small", None, b"small"]


async def test_a_sender_over_its_quota_is_refused_before_its_message_is_read(pair: tuple[Node, Node]) -> None:
    def check(sender: str) -> None:
        raise MessageRefused("quota", f"{sender} must wait")

    one, other = pair
    other.transport._check_quota = check
    async with listening(one, other):
        failed = await one.failure(one.peer(other), b"\0" * 1000)
    assert (failed.cause, "quota" in str(failed)) == ("refused", True)
    assert other.received == []


async def test_a_refused_message_is_not_kept_until_the_next_garbage_collection(pair: tuple[Node, Node]) -> None:
    """A flood of refused messages of the maximum size left 100 MiB."""
    one, other = pair
    refusal = MessageRefused("malformed", "no")
    other.answer, kept = refusal, weakref.ref(refusal)
    del refusal
    async with listening(one, other):
        gc.disable()
        try:
            await one.failure(one.peer(other))
            other.answer = None
            await eventually(lambda: kept() is None, "nothing refers to the refusal, nor through it to the message")
        finally:
            gc.enable()


async def test_calls_without_a_message_do_not_keep_out_others(
    pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    one, other = pair
    monkeypatch.setattr(other.transport, "_requests", Reads(2))
    async with listening(one, other):
        channel = one.transport._channel_to(one.peer(other)).channel
        calls = [channel.stream_unary(METHOD)(nothing(), timeout=TIMEOUT) for _ in range(2)]
        await eventually(lambda: len(other.transport._requests._reading) == 2)
        await one.transport.deliver(one.peer(other), b"small", TIMEOUT)
        await eventually(lambda: any(call.done() for call in calls))
        (oldest,) = [call for call in calls if call.done()]
        assert await oldest.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "too slowly" in str(await oldest.details())
        for call in calls:
            call.cancel()


async def test_answers_that_arrive_slowly_do_not_fill_the_memory(
    pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    monkeypatch.setattr(one.transport, "_answers", Reads(1))
    other.open.clear()
    async with listening(one, other):
        slow = asyncio.ensure_future(one.failure(one.peer(other), b"slow", 1.0))
        assert await one.transport.deliver(one.peer(other), b"small", TIMEOUT) == b"answer to small"
        assert (await slow).cause == "timeout", "a call without an answer takes no one's place"


async def test_a_sender_over_its_quota_is_not_read_for_a_moment(
    pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    monkeypatch.setattr(front, "_HOLD_SECONDS", 60.0)
    other.answer = MessageRefused("quota", "wait")
    async with listening(one, other):
        assert (await one.failure(one.peer(other))).cause == "refused"
        assert (await one.failure(one.peer(other), timeout=0.2)).cause == "timeout"
    assert [message for _, message in other.received] == [b"m"]


async def test_a_message_of_the_maximum_size_arrives(pair: tuple[Node, Node]) -> None:
    one, other = pair
    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"\0" * (LIMIT - 100), TIMEOUT)
    assert len(other.received[0][1] or b"") == LIMIT - 100


@pytest.mark.parametrize(
    "listen, why",
    [
        ("127.0.0.1:{used}", ": .*: "),
        ("192.0.2.1:7400", ": .*: "),
        ("no-such-host.invalid:7400", ", because the host name is unknown; "),
    ],
)
async def test_an_unusable_address_is_reported(fleet: Fleet, tmp_path: Path, listen: str, why: str) -> None:
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


async def test_a_stopped_transport_is_gone_and_may_be_stopped_again(pair: tuple[Node, Node]) -> None:
    one, other = pair
    async with listening(one, other):
        await one.transport.deliver(one.peer(other), b"m", TIMEOUT)
        await other.transport.stop(0.5)
        async with asyncio.timeout(TIMEOUT):
            while (failed := await one.failure(one.peer(other))).cause != "unreachable":
                assert failed.cause == "rejected", "until it notices the closed connection"
                await asyncio.sleep(0.02)
        await other.transport.stop(0.5)
        await one.transport.stop(0.5)
        stopping = await one.failure(one.peer(other))
        assert stopping.cause == "unreachable", "and no defect, even with pending deliveries"
        assert "stopping" in str(stopping)
