"""Messages about the fleet's tasks: devices store and forward only documents that the fleet has signed."""

import asyncio
from pathlib import Path

import pytest
from msgspec import json
from sottovoce.errors import IdentityError, MessageRefused, TaskRefused
from sottovoce.fleet.signed_task import SignedTask, load_task, read_task
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.node.gossip.fleet_tasks import FLEET_TASK, FleetTasks
from sottovoce.node.gossip.messenger import Messenger
from sottovoce.node.waits import Waits
from sottovoce.ops import Counters
from sottovoce.task import MAX_SIGNED_TASK_BYTES
from sottovoce_operator.fleet import Fleet, create_fleet, enrol
from sottovoce_operator.fleet.signing import propose

from tests.support.hosts import StubHost


class Node:
    """One device's fleet tasks, and the devices that it reaches."""

    def __init__(self, fleet: Fleet, directory: Path, name: str) -> None:
        self.name, self.others, self.sent = name, {}, 0  # type: ignore[var-annotated]
        state = directory / name
        self.taken: list[bytes] = []
        self.why: Exception | None = None
        identity = enrol(fleet, state / "identity")
        messenger = Messenger(lambda recipient, kind, payload: payload, self, 1.0, Counters(), Waits())  # type: ignore[arg-type]
        self.state = state
        self.host = StubHost(identity, lambda: [Peer(name, "x:1", "name") for name in self.others])
        self.part = FleetTasks(
            host=self.host, state=state, messenger=messenger, epoch=0, activate_task=self._activate_task
        )

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        del timeout
        self.sent += 1
        if peer.id not in self.others:
            raise DeliveryFailed("unreachable", "it is off")
        answer: bytes = await self.others[peer.id].part.receive(self.name, message)
        return answer

    def _activate_task(self, document: bytes) -> None:
        if self.why is not None:
            raise self.why
        self.taken.append(document)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return create_fleet(tmp_path / "authority", "street")


@pytest.fixture
def nodes(fleet: Fleet, tmp_path: Path) -> list[Node]:
    created = [Node(fleet, tmp_path, name) for name in "abc"]
    for item, other in ((0, 1), (1, 2)):
        created[item].others[created[other].name] = created[other]
        created[other].others[created[item].name] = created[item]
    return created


def task_message(task: SignedTask) -> bytes:
    return json.encode({"epoch": task.epoch, "task": task}, order="sorted")


async def test_a_task_spreads_and_is_activated(fleet: Fleet, nodes: list[Node], tmp_path: Path) -> None:
    task = propose(tmp_path / "authority", fleet, {"learner": {"name": "clipd2p"}}, {})
    (nodes[0].state / "task").write_bytes(task.encoding)
    await nodes[0].part.reload()
    runs = [asyncio.ensure_future(node.part.run()) for node in nodes[1:]]
    assert await nodes[0].part.run()  # the device activates the task, and ends in order to be reassembled
    nodes[0].part.epoch = 1
    repeated = asyncio.ensure_future(nodes[0].part.run())
    async with asyncio.timeout(20):
        await asyncio.gather(runs[0])
        nodes[1].part.epoch = 1
        runs[0] = asyncio.ensure_future(nodes[1].part.run())
        await asyncio.gather(runs[1])
    assert [node.taken for node in nodes] == [[task.encoding]] * 3
    for node in nodes:
        assert load_task(node.state, fleet.authority) == task
        node.host.stopping.set()
        node.part.retry_now()
    await asyncio.gather(runs[0], repeated)


async def test_unsigned_documents_are_refused_and_not_stored(nodes: list[Node], tmp_path: Path) -> None:
    stranger = create_fleet(tmp_path / "other", "street")
    forged = propose(tmp_path / "other", stranger, {"learner": {"name": "clipd2p"}}, {})
    with pytest.raises(MessageRefused, match=r"signed.*fleet"):
        await nodes[0].part.receive("b", task_message(forged))
    assert nodes[0].part.newest_task is None
    assert not (nodes[0].state / "task").exists()


async def test_an_older_task_is_answered_with_the_newer(fleet: Fleet, nodes: list[Node], tmp_path: Path) -> None:
    first = propose(tmp_path / "authority", fleet, {"learner": {"name": "clipd2p"}}, {})
    second = propose(tmp_path / "authority", fleet, {"learner": {"name": "golf"}}, {})
    assert (first.epoch, second.epoch) == (1, 2)
    await nodes[0].part.receive("b", task_message(second))
    assert await nodes[0].part.receive("b", task_message(first)) == task_message(second)
    assert nodes[0].part.newest_task == second


async def test_the_reason_for_not_activating_a_task_is_reported_and_the_current_task_continues(
    fleet: Fleet, nodes: list[Node], tmp_path: Path
) -> None:
    node = nodes[0]
    await node.part.receive(
        "b", task_message(propose(tmp_path / "authority", fleet, {"learner": {"name": "golf"}}, {}))
    )
    for why, words in (
        (TaskRefused("the owner has refused the task"), "the owner has refused the task"),
        (MemoryError(), "activation failed (MemoryError)"),
        (TypeError("row 17"), "activation failed (TypeError)"),
    ):
        node.why = why
        node.part.retry_now()
        assert not await node.part._try_activate()
        assert node.part.inactive_reason == words
    assert node.part.to_dict()["next"]["because"] == "activation failed (TypeError)"


@pytest.mark.parametrize("depth", range(3, 1200, 7))
async def test_nested_documents_do_not_end_a_device(nodes: list[Node], depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    raw = (
        b'{"epoch":1,"task":{"begins":0,"ends":null,"epoch":1,"fleet":"street","issued":0,"purpose":"","signature":"",'
        b'"tables":{"data":{"a":' + deep + b"}}}}"
    )
    with pytest.raises(MessageRefused):
        await nodes[0].part.receive("b", raw)


@pytest.mark.parametrize(
    "raw",
    [b"", b"{}", b"[]", b"\xff", b'{"epoch":-1}', b'{"epoch":1,"task":null,"x":1}', b"x" * (2 * MAX_SIGNED_TASK_BYTES)],
)
async def test_malformed_documents_are_refused(nodes: list[Node], raw: bytes) -> None:
    with pytest.raises(MessageRefused):
        await nodes[0].part.receive("b", raw)


async def test_a_corrupt_file_is_reported_and_peers_send_the_task_again(
    fleet: Fleet, nodes: list[Node], tmp_path: Path
) -> None:
    (nodes[0].state / "task").write_bytes(b"half of one")
    with pytest.raises(IdentityError, match=r"not.*task"):
        read_task(b"half of one", "it")
    task = propose(tmp_path / "authority", fleet, {"learner": {"name": "clipd2p"}}, {})
    await nodes[0].part.receive("b", task_message(task))
    assert nodes[0].part.newest_task == task
    assert FLEET_TASK == "fleet-task/1"
