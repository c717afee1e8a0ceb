"""Other devices' tasks: how a device reacts to them, and what operators see."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.node import tasks as module
from sottovoce.node.gossip.messenger import Messenger
from sottovoce.node.tasks import TASK, Tasks
from sottovoce.node.waits import Waits
from sottovoce.ops import Counters
from sottovoce.task import Task

from tests.support.hosts import StubHost
from tests.support.waiting import eventually, let_others_run

OWN = Task({"data.bounds": [[0.0], [10.0]], "learner.clip": 0.5})
OTHER = Task({"data.bounds": [[0.0], [1000.0]], "learner.clip": 0.5})
PEERS = ("a", "b", "c")


class _NoFleet:
    """A fleet that has signed nothing."""

    def note_other_task(self, peer: Peer) -> None:
        del peer

    def to_dict(self) -> dict[str, object]:
        return {"epoch": 0, "next": None}


class Bench:
    """Tasks on a device that knows a, b and c; every peer answers requests with `answer`."""

    def __init__(self) -> None:
        self.answer: bytes | Exception = OTHER.canonical
        self.requests: list[tuple[str, str]] = []
        self.announced_peers: list[tuple[str, ...]] = []
        self.answer_gate: asyncio.Event | None = None
        messenger = Messenger(self._seal, self, 1.0, Counters(), Waits())  # type: ignore[arg-type]
        self.host = StubHost(find=lambda node: Peer(node, "x:1", "name") if node[0] in PEERS else None)
        self.tasks = Tasks(self.host, OWN, messenger, _NoFleet())  # type: ignore[arg-type]
        self.tasks.subscribe(self._mix)
        self.tasks.peers = PEERS
        assert self.tasks.announce_mixing_peers() == PEERS

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        del message, timeout
        if self.answer_gate is not None:
            await self.answer_gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def _seal(self, recipient: str, kind: str, payload: bytes) -> bytes:
        self.requests.append((recipient, kind))
        return payload

    async def _mix(self) -> None:
        self.announced_peers.append(self.tasks.announce_mixing_peers())

    def others(self) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self.tasks.to_dict()["others"]
        return result


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    new_bench = Bench()
    yield new_bench
    await new_bench.host.settle()


async def test_nothing_is_mixed_with_a_device_until_it_has_this_task(bench: Bench) -> None:
    bench.tasks.note_task("b", OTHER.digest)
    await bench.host.settle()
    assert bench.announced_peers == [("a", "c")]
    assert [bench.tasks.shares_task_with(node) for node in PEERS] == [True, False, True]
    bench.tasks.note_task("b", OWN.digest)
    await bench.host.settle()
    assert bench.announced_peers == [("a", "c"), PEERS]
    assert bench.others() == []


async def test_one_device_per_task_is_asked_for_the_document_and_it_is_logged_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for node in ("b", "c", "b"):
        bench.tasks.note_task(node, OTHER.digest)
    await bench.host.settle()
    bench.tasks.note_task("c", OTHER.digest)
    await bench.host.settle()
    assert bench.requests == [("b", TASK)]
    (other,) = bench.others()
    assert (other["devices"], other["digest"], bench.tasks.other_task_count) == (2, OTHER.digest.hex(), 2)
    assert other["differences"] == ("data.bounds [[0.0],[1000.0]] where this device has [[0.0],[10.0]]",)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["another-task"]


@pytest.mark.parametrize(
    "answer", [b"", b"{", b"[]", OWN.canonical, b" " + OTHER.canonical, b"{}" * 2**16,
               DeliveryFailed("timeout", "not there")],
)  # fmt: skip
async def test_an_invalid_document_is_not_stored_and_is_requested_again(
    bench: Bench, answer: bytes | Exception
) -> None:
    bench.answer = answer
    bench.tasks.note_task("b", OTHER.digest)
    await bench.host.settle()
    assert bench.others()[0]["differences"] == ()
    bench.answer = OTHER.canonical
    bench.tasks.note_task("b", OTHER.digest)
    await bench.host.settle()
    assert len(bench.requests) == 1, "the same peer is asked again a minute later"
    bench.tasks.note_task("c", OTHER.digest)
    await bench.host.settle()
    assert bench.others()[0]["differences"]


async def test_a_device_that_refuses_a_share_counts_as_another_task_for_a_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECONSIDER_SECONDS", 0.05)
    bench.tasks.note_refusal("a", OTHER.digest)
    assert bench.tasks.shares_task_with("a"), "a message for this device's earlier task reveals nothing"
    bench.tasks.note_refusal("a", OWN.digest)
    await bench.host.settle()
    assert bench.announced_peers == [("b", "c")]
    await eventually(lambda: len(bench.announced_peers) >= 2, "the peer counts again")
    assert bench.announced_peers[1] == PEERS
    assert bench.others() == []


async def test_thousands_of_strangers_use_bounded_memory(bench: Bench) -> None:
    for number in range(5000):
        bench.tasks.note_task(f"node-{number}", number.to_bytes(32, "big"))
    assert len(bench.tasks._reports) == module._MAX_DEVICES
    assert len(bench.others()) <= module._MAX_DOCUMENTS
    assert bench.requests == [], "their addresses are unknown"


async def test_excess_tasks_and_late_answers_break_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MIN_REQUEST_SECONDS", 0.0)
    bench.answer_gate = asyncio.Event()
    tasks = [Task({"learner.clip": float(number)}) for number in range(40)]
    for number, task in enumerate(tasks):
        bench.tasks.note_task(f"a{number}", task.digest)
    await eventually(lambda: len(bench.requests) >= module._MAX_REQUESTS, "requests are sent")
    await let_others_run(20)
    bench.answer_gate.set()
    assert len(bench.requests) == module._MAX_REQUESTS, "this many are queried at once"
    await bench.host.settle()
    for number, task in enumerate(tasks):
        bench.answer = task.canonical
        bench.tasks.note_task(f"a{number}", task.digest)
        await bench.host.settle()
    assert len(bench.tasks._differences) == module._MAX_DOCUMENTS


async def test_corrected_device_is_mixed_with_after_a_long_silence(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECONSIDER_SECONDS", 0.2)
    bench.tasks.note_task("b", OTHER.digest)
    await asyncio.sleep(0.1)
    bench.tasks.note_task("b", OTHER.digest)  # the time starts over, and the learner is informed at its end
    await eventually(lambda: bench.announced_peers == [("a", "c"), PEERS], "the device counts again")
    bench.tasks.note_task("b", OWN.digest)
    await bench.host.settle()
    assert bench.announced_peers == [("a", "c"), PEERS]


async def test_a_device_that_keeps_changing_its_task_stays_separate(bench: Bench) -> None:
    for _ in range(1000):
        bench.tasks.note_task("b", OTHER.digest)
        bench.tasks.note_task("b", OWN.digest)
        await bench.host.settle()
    assert not bench.tasks.shares_task_with("b")
    assert len(bench.announced_peers) <= 2 * module._MAX_CHANGES + 2


async def test_the_learner_is_given_the_current_peers(bench: Bench) -> None:
    bench.tasks.note_task("b", OTHER.digest)  # the learner acts on this a moment later
    bench.tasks.peers = ("a", "d")
    await bench.host.settle()
    assert bench.announced_peers == [("a", "d")]
