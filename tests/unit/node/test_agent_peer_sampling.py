"""Peer sampling: the peers that count as unreachable."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from sottovoce.net.transports import DeliveryFailed
from sottovoce.node.gossip.messenger import Messenger
from sottovoce.node.gossip.peer_sampling import PeerSampler
from sottovoce.node.waits import Waits
from sottovoce.ops import Counters

from tests.support.waiting import let_others_run

GONE = SimpleNamespace(contact=SimpleNamespace(node_id="gone", endpoints=("gone:1",)), exchange=None)


@pytest.fixture
def failing_request(monkeypatch: pytest.MonkeyPatch) -> tuple[PeerSampler, asyncio.Event]:
    """Peer sampling whose request to a peer fails once the event is set."""
    monkeypatch.setattr("sottovoce.node.gossip.peer_sampling.encode_exchange", lambda _: b"")
    fail = asyncio.Event()

    async def deliver(*_: Any) -> bytes:
        await fail.wait()
        raise DeliveryFailed("unreachable", "nothing listens there")

    membership = MagicMock()
    membership.warm.return_value = ()
    transport = SimpleNamespace(deliver=deliver)
    parts: dict[str, Any] = dict.fromkeys(("book", "boots", "discovery"), MagicMock())
    messenger: Any = Messenger(lambda *_: b"", transport, 1.0, Counters(), Waits())
    peer_sampling = PeerSampler(host=MagicMock(), membership=membership, messenger=messenger, **parts)
    peer_sampling._loop = MagicMock(time=lambda: 0.0)
    return peer_sampling, fail


async def test_a_peer_that_does_not_answer_counts_as_unreachable(
    failing_request: tuple[PeerSampler, asyncio.Event],
) -> None:
    peer_sampling, fail = failing_request
    fail.set()
    await peer_sampling._request(GONE)  # type: ignore[arg-type]
    assert peer_sampling.failing_peers["gone"].failures == 1


async def test_a_peer_expelled_during_the_request_does_not_count(
    failing_request: tuple[PeerSampler, asyncio.Event],
) -> None:
    peer_sampling, fail = failing_request
    request = asyncio.create_task(peer_sampling._request(GONE))  # type: ignore[arg-type]
    await let_others_run()
    peer_sampling.expel({"gone"})
    fail.set()
    await request
    assert not peer_sampling.failing_peers
