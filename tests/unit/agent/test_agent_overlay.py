"""The overlay: whom it counts as trouble."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from sottovoce.agent.overlay import Overlay
from sottovoce.observe import Counters
from sottovoce.transport import DeliveryFailed

GONE = SimpleNamespace(contact=SimpleNamespace(node_id="gone"), exchange=None)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> tuple[Overlay, asyncio.Event]:
    """An overlay whose question to a peer fails once the event is set."""
    monkeypatch.setattr("sottovoce.agent.overlay.encode_exchange", lambda _: b"")
    fail = asyncio.Event()

    async def deliver(*_: Any) -> bytes:
        await fail.wait()
        raise DeliveryFailed("unreachable", "nobody listens there")

    membership = MagicMock()
    membership.warm.return_value = ()
    transport = SimpleNamespace(deliver=deliver)
    parts: dict[str, Any] = dict.fromkeys(("book", "boots", "discovery"), MagicMock())
    overlay = Overlay(membership=membership, transport=transport, counters=Counters(), timeout=1.0, **parts)
    overlay._door = MagicMock(seal=lambda *_: b"")
    overlay._loop = MagicMock()
    return overlay, fail


async def test_a_peer_that_does_not_answer_is_trouble(asked: tuple[Overlay, asyncio.Event]) -> None:
    overlay, fail = asked
    fail.set()
    await overlay._request(GONE)  # type: ignore[arg-type]
    assert overlay.troubles["gone"].failures == 1


async def test_a_peer_that_was_expelled_while_it_was_asked_is_none(asked: tuple[Overlay, asyncio.Event]) -> None:
    overlay, fail = asked
    request = asyncio.create_task(overlay._request(GONE))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    overlay.expel({"gone"})
    fail.set()
    await request
    assert not overlay.troubles
