"""The surroundings of an agent's part in a test, without an agent."""

import asyncio
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

from sottovoce.fleet import Identity, Trust
from sottovoce.net.transports import Peer
from sottovoce.node.host import Host


class StubHost(Host):
    """A host with the given links, of which a test sees the background tasks.

    Args:
        trust: the device's trust, or its identity; None for a part that uses neither.
        peers: returns the peers that have a link.
        find: returns the peer with a node id; by default, from among the linked peers.
        gone: node ids of the devices that have left; a test may change it.
    """

    def __init__(
        self,
        trust: Trust | Identity | None = None,
        peers: Callable[[], list[Peer]] = list,
        find: Callable[[str], Peer | None] | None = None,
        gone: Collection[str] = (),
    ) -> None:
        anyone: Any = SimpleNamespace(is_revoked=lambda node: False, identity=SimpleNamespace(fleet="fleet"))
        super().__init__(Trust(trust) if isinstance(trust, Identity) else trust or anyone, (), None)
        self._linked, self._find, self.gone = peers, find, gone

    def linked_peers(self) -> list[Peer]:
        return self._linked()

    def find(self, node: str) -> Peer | None:
        return self.find_known(node)

    def find_known(self, node: str) -> Peer | None:
        if self._find is not None:
            return self._find(node)
        return next((peer for peer in self._linked() if peer.id == node), None)

    def has_left(self, node: str) -> bool:
        return node in self.gone

    async def settle(self) -> None:
        """Wait until no background task is left; raise the failure of one."""
        while self._background_tasks:
            await asyncio.wait(self._background_tasks)
        if self.failure is not None:
            raise self.failure
