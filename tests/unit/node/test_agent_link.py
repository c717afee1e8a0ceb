"""Link: it resends the same bytes with growing pauses until they are confirmed, and logs each cause once a minute."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from sottovoce.errors import InternalError, MessageRefused
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.net.wire import Receipt, SignedHead, append_heads, encode_receipt
from sottovoce.node.link import Link
from sottovoce.node.links import Outgoing
from sottovoce.node.waits import Waits
from sottovoce.ops import Counters

from tests.support.scripted import APPLIED, PEER, Scripted
from tests.support.waiting import TIMEOUT, eventually, let_others_run

HEAD = SignedHead(bytes(32), 2, 1, bytes(32), bytes(16))
DUPLICATE = encode_receipt(Receipt(duplicate=True))


@dataclass
class Told:
    """Ledger-head gossip that notes its recipients; implements sottovoce.node.link.HeadSender."""

    owes: bool = False
    failures: list[Exception] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)

    def is_due(self, peer: str) -> bool:
        assert peer == PEER.id
        return self.owes

    async def send_head(self, peer: Peer) -> None:
        assert peer == PEER
        if self.failures:
            raise self.failures.pop(0)
        self.told.append(len(self.sent))
        self.owes = False

    async def make_request(self, peer: str) -> tuple[SignedHead, bytes]:
        assert peer == PEER.id
        return HEAD, b"a head"

    async def handle_answer(self, peer: str, head: SignedHead, raw: bytes) -> None:
        assert (peer, head) == (PEER.id, HEAD)
        if self.failures:
            raise self.failures.pop(0)
        self.answers.append(raw)
        self.owes = False


class Bench:
    """A link on a scripted transport."""

    def __init__(self, *script: bytes | Exception, backoff: float = 0.001, backoff_max: float = 0.01) -> None:
        self.transport = Scripted(list(script))
        self.counters, self.waits = Counters(), Waits()
        self.confirmed: list[Outgoing] = []
        self.replies: list[tuple[str, bytes] | None] = []
        self.declined: list[tuple[Outgoing, str]] = []
        self.missed: list[str] = []
        self.head_gossip = Told(sent=self.transport.sent)
        self.link = Link(
            peer=PEER,
            transport=self.transport,
            head_gossip=self.head_gossip,
            on_confirmed=self._confirmed,
            on_refused=self._declined,
            on_failed_attempt=self.missed.append,
            counters=self.counters,
            waits=self.waits,
            timeout=3.0,
            backoff=backoff,
            backoff_max=backoff_max,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.link.run())
        try:
            yield
        finally:
            self.link.stop()
            await asyncio.wait_for(task, TIMEOUT)

    async def until_confirmed(self, count: int) -> None:
        await eventually(lambda: len(self.confirmed) >= count)

    async def until_failed(self) -> None:
        await eventually(lambda: bool(self.link.failures))

    async def _confirmed(self, outgoing: Outgoing, reply: tuple[str, bytes] | None) -> None:
        self.confirmed.append(outgoing)
        self.replies.append(reply)

    async def _declined(self, outgoing: Outgoing, reason: str) -> None:
        self.declined.append((outgoing, reason))


def share(sequence: int) -> Outgoing:
    return Outgoing(PEER.id, sequence, b"share %d" % sequence)


def failure(cause: str = "unreachable") -> DeliveryFailed:
    return DeliveryFailed(cause, f"peer {PEER.id}: {cause}")


async def test_a_permanently_refused_share_is_not_retried() -> None:
    bench = Bench(failure(), encode_receipt(Receipt(refused="task")), APPLIED)
    async with bench.running():
        bench.link.offer(share(1))
        await eventually(lambda: bench.declined, "the share is declined")
        bench.link.offer(share(2))
        await bench.until_confirmed(1)
    assert bench.declined == [(share(1), "task")]
    assert bench.confirmed == [share(2)]


async def test_the_recipient_s_reply_arrives_with_its_confirmation() -> None:
    bench = Bench(encode_receipt(Receipt(reply=("pairwise-move/1", b"so far"))), APPLIED)
    async with bench.running():
        bench.link.offer(share(1))
        await bench.until_confirmed(1)
        bench.link.offer(share(2))
        await bench.until_confirmed(2)
    assert bench.replies == [("pairwise-move/1", b"so far"), None]


async def test_a_share_is_delivered_once_and_confirmed() -> None:
    bench = Bench()
    async with bench.running():
        bench.link.offer(share(1))
        await bench.until_confirmed(1)
        bench.link.offer(share(2))
        await bench.until_confirmed(2)
    assert bench.transport.sent == [b"share 1", b"share 2"]
    assert bench.confirmed == [share(1), share(2)]
    assert (bench.counters.messages, bench.counters.retries, bench.counters.wire_bytes) == (2, 0, 14)
    assert bench.waits.to_dict() == []


async def test_a_retry_sends_the_same_bytes_until_one_arrives() -> None:
    bench = Bench(failure(), failure("timeout"), failure("tls"), b"not a receipt", DUPLICATE)
    async with bench.running():
        bench.link.offer(share(1))
        await bench.until_confirmed(1)
    assert bench.transport.sent == [b"share 1"] * 5
    assert bench.confirmed == [share(1)], "an earlier application counts as well"
    assert (bench.counters.messages, bench.counters.retries, bench.counters.wire_bytes) == (1, 4, 35)
    assert bench.counters.failures == {"unreachable": 1, "timeout": 1, "tls": 1, "other": 1}
    assert (bench.link.failures, bench.link.last_failure) == (0, "")


async def test_each_cause_is_logged_once_a_minute_however_often_it_occurs(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.ops.logs.time", SimpleNamespace(monotonic=lambda: 100.0))
    monkeypatch.setattr("sottovoce.node.link.START_SECONDS", 0.0)
    bench = Bench(*[failure()] * 20, *[failure("tls")] * 20)
    with caplog.at_level(logging.WARNING, logger="sottovoce"):
        async with bench.running():
            bench.link.offer(share(1))
            await bench.until_confirmed(1)
    assert [record.getMessage() for record in caplog.records] == [
        f"delivery-failed cause=unreachable peer {PEER.id}: unreachable",
        f"delivery-failed cause=tls peer {PEER.id}: tls",
    ]


async def test_a_peer_that_starts_at_the_same_time_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(*[failure()] * 20)
    with caplog.at_level(logging.WARNING, logger="sottovoce"):
        async with bench.running():
            bench.link.offer(share(1))
            await bench.until_confirmed(1)
    assert caplog.messages == []
    assert bench.counters.failures == {"unreachable": 20}


async def test_the_ledger_head_is_sent_at_the_beginning_and_with_a_share_whenever_due() -> None:
    bench = Bench(APPLIED, APPLIED, encode_receipt(Receipt(heads=b"known")))
    bench.head_gossip.owes = True
    async with bench.running():
        bench.link.offer(share(1))
        await bench.until_confirmed(1)
        bench.link.offer(share(2))
        await bench.until_confirmed(2)
        bench.head_gossip.owes = True
        bench.link.offer(share(3))
        await bench.until_confirmed(3)
    assert bench.head_gossip.told == [0], "after this many shares"
    assert bench.transport.sent == [b"share 1", b"share 2", append_heads(b"share 3", b"a head")]
    assert bench.head_gossip.answers == [b"known"]
    assert bench.counters.wire_bytes == sum(map(len, bench.transport.sent))


async def test_head_is_sent_separately_after_a_failure() -> None:
    bench = Bench(failure(), APPLIED)
    async with bench.running():
        await let_others_run()
        bench.head_gossip.owes = True
        bench.link.offer(share(1))
        await bench.until_confirmed(1)
    assert bench.transport.sent == [append_heads(b"share 1", b"a head"), b"share 1"]
    assert bench.head_gossip.told == [1]


async def test_a_share_is_not_confirmed_before_the_head_s_answer_is_valid() -> None:
    bench = Bench(encode_receipt(Receipt(heads=b"nonsense")), DUPLICATE)
    async with bench.running():
        await let_others_run()
        bench.head_gossip.owes, bench.head_gossip.failures = True, [MessageRefused("head", "of another device")]
        bench.link.offer(share(1))
        await bench.until_confirmed(1)
    assert bench.missed == [PEER.id]
    assert bench.transport.sent == [append_heads(b"share 1", b"a head"), b"share 1"]


async def test_no_share_leaves_while_the_head_cannot_be_sent() -> None:
    bench = Bench()
    bench.head_gossip.owes = True
    bench.head_gossip.failures += [failure(), failure("timeout"), MessageRefused("signature", "forged")]
    async with bench.running():
        bench.link.offer(share(1))
        await bench.until_confirmed(1)
    assert (bench.head_gossip.told, bench.transport.sent) == ([0], [b"share 1"])
    assert (bench.counters.messages, bench.counters.retries) == (1, 0)
    assert bench.counters.failures == {"unreachable": 1, "timeout": 1, "other": 1}


async def test_an_idle_link_sends_the_head_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.node.link._HEAD_CHECK_SECONDS", 0.001)
    bench = Bench()
    async with bench.running():
        await let_others_run(20)
        bench.head_gossip.owes = True
        await eventually(lambda: bool(bench.head_gossip.told))
        assert bench.link.is_idle
    assert bench.transport.sent == []


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """Return the ranges from which pauses are drawn; the fourth is long, and all others are zero."""
    results: list[tuple[float, float]] = []

    def drawn(low: float, high: float) -> float:
        results.append((low, high))
        return 10 * TIMEOUT if len(results) == 4 else 0.0

    monkeypatch.setattr("random.uniform", drawn)
    return results


async def until_it_pauses(bench: Bench, ranges: list[tuple[float, float]]) -> None:
    await eventually(lambda: len(ranges) == 4)
    assert bench.confirmed == []


async def test_pauses_grow_to_their_limit_and_end_when_the_peer_sends_a_message(
    ranges: list[tuple[float, float]],
) -> None:
    bench = Bench(*[failure()] * 8, backoff=1.0, backoff_max=30.0)
    async with bench.running():
        bench.link.offer(share(1))
        await until_it_pauses(bench, ranges)
        bench.link.retry_now()
        await bench.until_confirmed(1)
        bench.transport.script.append(failure())
        bench.link.offer(share(2))
        await bench.until_confirmed(2)
    assert [high for _, high in ranges] == [1, 2, 4, 8, 16, 30, 30, 30, 1]
    assert all(low == high / 10 for low, high in ranges), "pauses differ"


async def test_a_restored_connection_ends_a_pause_and_resets_pauses(
    ranges: list[tuple[float, float]],
) -> None:
    bench = Bench(*[failure()] * 6, backoff=1.0, backoff_max=300.0)
    async with bench.running():
        bench.link.offer(share(1))
        await until_it_pauses(bench, ranges)
        bench.link.mark_reachable()
        await bench.until_confirmed(1)
    assert [high for _, high in ranges] == [1, 2, 4, 8, 1, 2]


async def test_a_failure_not_caused_by_the_peer_is_retried_soon_and_not_counted(
    ranges: list[tuple[float, float]],
) -> None:
    offline = DeliveryFailed("unreachable", "no connection to the broker", left=False)
    bench = Bench(*[offline] * 6, failure(), backoff=1.0, backoff_max=300.0)
    async with bench.running():
        bench.link.offer(share(1))
        await until_it_pauses(bench, ranges)
        bench.link.retry_now()
        await bench.until_confirmed(1)
    assert [high for _, high in ranges] == [1, 2, 4, 5, 5, 5, 1]
    assert bench.missed == [PEER.id]


async def test_a_thousand_consecutive_failures_do_not_overflow() -> None:
    bench = Bench(*[failure()] * 1100, backoff=1e-9, backoff_max=1e-6)
    async with bench.running():
        bench.link.offer(share(1))
        await bench.until_confirmed(1)
    assert bench.counters.retries == 1100


async def test_a_wait_is_listed_with_reason_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The link uses a clock that does not advance."""
    monkeypatch.setattr("sottovoce.node.waits.time", SimpleNamespace(monotonic=lambda: 100.0))
    bench = Bench(failure(), backoff=1000.0, backoff_max=1000.0)
    observed = []
    bench.transport.look = lambda: observed.extend(bench.waits.to_dict())
    async with bench.running():
        bench.link.offer(share(7))
        await bench.until_failed()
        (pause,) = bench.waits.to_dict()
        assert bench.link.last_failure == f"peer {PEER.id}: unreachable"
    (attempt,) = observed
    assert attempt["reason"] == f"{PEER.address} to confirm share 7"
    assert attempt["left_s"] == 3.0
    assert str(pause["reason"]).startswith(f"the next attempt to reach {PEER.address}: peer {PEER.id}: unreachable")
    assert 100 <= float(pause["left_s"]) <= 1000
    assert bench.waits.to_dict() == [], "a stopped link has no wait"


async def test_a_finished_wait_is_removed() -> None:
    bench = Bench(failure())
    async with bench.running():
        bench.link.offer(share(7))
        await bench.until_confirmed(1)
        assert bench.waits.to_dict() == []


async def test_a_link_stopped_in_a_pause_ends_at_once_and_confirms_nothing() -> None:
    bench = Bench(failure(), backoff=1000.0, backoff_max=1000.0)
    async with asyncio.timeout(TIMEOUT), bench.running():  # the pause is at least 100 s
        bench.link.offer(share(1))
        await bench.until_failed()
    assert bench.confirmed == []


async def test_an_idle_link_can_be_stopped() -> None:
    bench = Bench()
    async with asyncio.timeout(TIMEOUT), bench.running():
        await let_others_run()
    assert bench.transport.sent == []


async def test_a_link_carries_one_share_at_a_time() -> None:
    bench = Bench()
    bench.link.offer(share(1))
    with pytest.raises(asyncio.QueueFull):
        bench.link.offer(share(2))


async def test_unsealed_content_never_reaches_a_transport() -> None:
    import numpy as np
    from sottovoce.algorithms.push_sum.public.messages import PushSumShare

    bench = Bench()
    bench.link.offer(Outgoing(PEER.id, 1, PushSumShare(np.zeros(1, dtype=np.int64), 1)))
    with pytest.raises(InternalError, match="envelopes"):
        await asyncio.wait_for(bench.link.run(), TIMEOUT)
    assert bench.transport.sent == []
