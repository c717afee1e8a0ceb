"""Devices that communicate over gRPC."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.fleet import Identity, Trust
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.net.transports.grpc import GrpcTransport

from tests.support.devices import free_port
from tests.support.waiting import TIMEOUT, eventually

LIMIT = 2**18


class Node:
    """Transport that answers with the received message."""

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
        """Return another node, or this node, as a peer."""
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

    async def failure(self, peer: Peer, message: bytes = b"m", timeout: float = TIMEOUT) -> DeliveryFailed:  # noqa: ASYNC109
        with pytest.raises(DeliveryFailed) as exc_info:
            await self.transport.deliver(peer, message, timeout)
        assert str(exc_info.value).startswith(f"peer {peer.id} at {peer.address}: ")
        assert "\n" not in str(exc_info.value)
        return exc_info.value

    async def deliver_with_retries(self, peer: Peer, message: bytes) -> bytes:
        """Try until the message is delivered, as an agent would."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                try:
                    return await self.transport.deliver(peer, message, TIMEOUT)
                except DeliveryFailed:
                    await asyncio.sleep(0.02)


@asynccontextmanager
async def listening(*nodes: Node) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for node in nodes:
            await node.transport.start(node.receive)
            stack.push_async_callback(node.transport.stop, 0.5)
        yield


async def refused_connections(node: Node, at_least: int) -> None:
    """Wait for refused connections: a handshake is certain to have failed only when its time has elapsed."""
    await eventually(lambda: node.transport.listener().refused >= at_least)
