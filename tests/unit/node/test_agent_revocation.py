"""Gossip of revocation lists among simulated devices."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.fleet import Identity, Trust
from sottovoce.net.transports import DeliveryFailed, Listener, Peer, Receive
from sottovoce.net.wire import unseal
from sottovoce.net.wire.envelope import seal
from sottovoce.net.wire.revocation import RevocationList, Revocations, decode_revocations, encode_revocations
from sottovoce.node.gossip.messenger import Messenger
from sottovoce.node.gossip.revocation_gossip import RevocationGossip
from sottovoce.node.gossip.revocation_store import load_revocation_list, store_revocation_list
from sottovoce.node.waits import Waits
from sottovoce.ops import Counters
from sottovoce_operator.fleet import Fleet, enrol
from sottovoce_operator.fleet.signing import revoke

from tests.support.fleets import new_fleet
from tests.support.hosts import StubHost
from tests.support.waiting import eventually

Net = dict[str, "Node"]


class Node:
    """Revocation gossip, and a transport to other nodes that stores each request."""

    largest = 2**20

    def __init__(self, fleet: Fleet, state: Path, net: Net, period: float = 3600.0) -> None:
        self.identity: Identity = enrol(fleet, state / "identity")
        self.state, self.net, self.asked = state, net, list[Revocations]()
        self.trust = Trust(self.identity)
        self.down = False
        self.shunned = 0
        self.peers: list[Peer] = []
        messenger = Messenger(self._seal, self, 1.0, Counters(), Waits())
        host = StubHost(self.trust, lambda: self.peers)
        self.revocations = RevocationGossip(host=host, state=state, messenger=messenger, period=period)
        self.trust.subscribe(self._shun)
        net[self.identity.node_id] = self

    @property
    def id(self) -> str:
        return self.identity.node_id

    def reaches(self, address: str) -> bool:
        return bool(address)

    def listener(self) -> Listener:
        return Listener(0, 0)

    async def start(self, receive: Receive) -> None: ...

    async def stop(self, grace: float) -> None: ...

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        other = self.net[peer.id]
        if other.down:
            raise DeliveryFailed("unreachable", "it is down")
        payload = unseal(message, fleet=self.identity.fleet, recipient=peer.id).payload
        other.asked.append(decode_revocations(payload))
        return await other.revocations.receive(self.id, payload)

    def meet(self, *others: "Node") -> None:
        self.peers = [Peer(other.id, "a:1", "name") for other in others]

    def _seal(self, recipient: str, kind: str, payload: bytes) -> bytes:
        return seal(self.identity, recipient=recipient, incarnation=1, sequence=1, payload_type=kind, payload=payload,
                    task=bytes(32))  # fmt: skip

    def _shun(self) -> None:
        self.shunned += 1


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return new_fleet(tmp_path / "authority")


@pytest.fixture
def net() -> Net:
    return {}


def make_list(fleet: Fleet, tmp_path: Path, *nodes: Node) -> RevocationList:
    return revoke(tmp_path / "authority", fleet, [node.id for node in nodes])


async def install_list(node: Node, revoked: RevocationList) -> None:
    """Install a list, as an operator does."""
    store_revocation_list(node.state, revoked, node.identity.authority)
    await node.revocations.reload()


async def all_at_work(*nodes: Node) -> list["asyncio.Task[None]"]:
    return [asyncio.ensure_future(node.revocations.run()) for node in nodes]


@pytest.fixture
def line(fleet: Fleet, tmp_path: Path, net: Net) -> Iterator[list[Node]]:
    """Five nodes, each linked to its neighbours, and one without links."""
    nodes = [Node(fleet, tmp_path / str(number), net) for number in range(6)]
    for number, node in enumerate(nodes[:5]):
        node.meet(*nodes[max(0, number - 1) : number], *nodes[number + 1 : min(5, number + 2)])
    yield nodes
    for node in nodes:
        node.revocations.stop()


async def turns(count: int = 200) -> None:
    for _ in range(count):
        await asyncio.sleep(0.001)


async def test_a_new_list_spreads_along_the_links_and_each_node_receives_it_once(
    line: list[Node], fleet: Fleet, tmp_path: Path
) -> None:
    *others, isolated = line
    tasks = await all_at_work(*others)
    await turns(5)
    assert not any(node.asked for node in line), "a fleet without revocations sends nothing but requests"
    await install_list(others[0], make_list(fleet, tmp_path, isolated))
    await eventually(lambda: all(node.revocations.version == 1 for node in others), "all have the list")
    await turns(50)
    for node in others:
        assert node.trust.is_revoked(isolated.id)
        assert node.shunned == 1
        assert sum(question.document is not None for question in node.asked) <= 1
        stored = load_revocation_list(node.state, fleet.authority)
        assert stored is not None
        assert stored.version == 1
    for node in others:
        node.revocations.stop()
    await asyncio.gather(*tasks)


async def test_a_request_transfers_a_list_in_either_direction(line: list[Node], fleet: Fleet, tmp_path: Path) -> None:
    one, two, *_, isolated = line
    await install_list(one, make_list(fleet, tmp_path, isolated))
    two.meet(one)
    await two.revocations._ask_random_peer()
    assert two.revocations.version == 1, "the requester receives the list"
    three = line[2]
    two.meet(three)
    await two.revocations._ask_random_peer()
    assert three.revocations.version == 1, "the requested node receives the list"


async def test_a_silent_peer_is_informed_later(line: list[Node], fleet: Fleet, tmp_path: Path) -> None:
    one, two, *_, isolated = line
    one.meet(two)
    two.down = True
    await install_list(one, make_list(fleet, tmp_path, isolated))
    await one.revocations._inform_peers()
    assert two.revocations.version == 0
    two.down = False
    await one.revocations._inform_peers()
    assert two.revocations.version == 1


async def test_a_device_that_finds_itself_in_a_list_reports_it(line: list[Node], fleet: Fleet, tmp_path: Path) -> None:
    one, *_, isolated = line
    await install_list(one, make_list(fleet, tmp_path, isolated))
    isolated.meet(one)
    with pytest.raises(IdentityError, match=f"this device \\({isolated.id}\\) was revoked"):
        await isolated.revocations._ask_random_peer()
    with pytest.raises(IdentityError, match="was revoked"):
        RevocationGossip(
            host=StubHost(isolated.trust), state=isolated.state, messenger=isolated.revocations._messenger, period=1.0
        )
    with pytest.raises(MessageRefused, match="revoked") as exc_info:
        await one.revocations.receive(isolated.id, encode_revocations(Revocations(0, None)))
    assert exc_info.value.reason == "revoked", "it already has the list"


async def test_invalid_lists_are_refused(line: list[Node], fleet: Fleet, tmp_path: Path) -> None:
    one, two, *_ = line
    good = make_list(fleet, tmp_path, two)
    forged = good.sign(two.identity.sign)
    with pytest.raises(MessageRefused) as exc_info:
        await one.revocations.receive(two.id, encode_revocations(Revocations(1, forged)))
    assert exc_info.value.reason == "signature"
    assert (one.revocations.version, one.shunned, load_revocation_list(one.state, fleet.authority)) == (0, 0, None)
    await install_list(one, make_list(fleet, tmp_path, line[5]))
    assert one.revocations.version == 2
    await one.revocations.receive(line[2].id, encode_revocations(Revocations(1, good)))
    assert one.revocations.version == 2, "an older list changes nothing"


def test_each_list_contains_all_earlier_revocations(fleet: Fleet, tmp_path: Path, net: Net) -> None:
    one, two = (Node(fleet, tmp_path / name, net) for name in "ab")
    assert make_list(fleet, tmp_path, one).node_ids == (one.id,)
    second = make_list(fleet, tmp_path, two, one)
    assert (second.version, second.node_ids) == (2, tuple(sorted((one.id, two.id))))
    second.verify(fleet.authority)
    (tmp_path / "authority" / "revoked").write_bytes(b"x")
    with pytest.raises(IdentityError, match="revocation"):
        make_list(fleet, tmp_path, one)
