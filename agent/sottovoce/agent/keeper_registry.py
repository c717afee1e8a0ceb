"""A device's witnesses: a few peers that receive its ledger heads, and are asked for its newest head at startup.

The ledger lists the witnesses before anything is charged. A restored copy therefore asks the same peers, whatever the
size of the fleet. Only peers that have accepted a head are listed, so even if a device stops immediately afterwards,
the peers that it will ask know its ledger. A witness that has left the fleet, or was unreachable for three days, is
replaced.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Collection

from sottovoce.agent.rollback_detector import RollbackDetector
from sottovoce.errors import MessageRefused
from sottovoce.transport import DeliveryFailed, Peer
from sottovoce.vault import VaultInterface, Witness

KEEPERS = 8
"""Number of keepers. If half of the fleet is unreachable, one device in 256 reaches none of its keepers."""

NOTIFIED_PER_CHARGE = KEEPERS // 2
"""Number of witnesses that are notified after each charge, in rotation.

After a second charge, all witnesses have been notified. At startup, all of them are asked.
"""

REPLACE_AFTER_SECONDS = 3 * 86_400.0
"""Time after which an unreachable keeper is replaced, in seconds since the first failed attempt."""


class WitnessRegistry:
    """Registry of a device's keepers, which appoints them and sends them ledger heads.

    Args:
        vault: the vault, which stores the list of keepers in the ledger.
        detector: evaluates the keepers' answers.
        send_head: sends a peer the current head and receives its known head; raises DeliveryFailed or MessageRefused.
        dns_name: returns a node's DNS name.
    """

    def __init__(
        self,
        vault: VaultInterface,
        detector: RollbackDetector,
        send_head: Callable[[Peer], Awaitable[None]],
        dns_name: Callable[[str], str],
    ) -> None:
        self.keepers = vault.keepers()
        self._vault = vault
        self._detector = detector
        self._send_head = send_head
        self._dns_name = dns_name
        self._peers: Callable[[], list[Peer]] = list
        self._has_left: Callable[[str], bool] = lambda node: False
        self._next_index = 0
        self._failing_since: dict[str, float] = {}
        detector.keepers = self.nodes

    def attach(self, peers: Callable[[], list[Peer]], has_left: Callable[[str], bool]) -> None:
        """Set the callbacks for the known peers, and for whether a node has left or is excluded from the fleet."""
        self._peers, self._has_left = peers, has_left

    @property
    def nodes(self) -> frozenset[str]:
        """The keepers' node ids."""
        return frozenset(keeper.node for keeper in self.keepers)

    async def notify_keepers(self, is_due: Callable[[str], bool], limit: int) -> None:
        """Send the head to at most `limit` keepers for which it is due, in turn, and record which do not answer.

        Raises:
            LedgerError: if a keeper knows a newer head, or a head from a diverged history.
        """
        order = [*self.keepers[self._next_index :], *self.keepers[: self._next_index]]
        chosen = [keeper for keeper in order if is_due(keeper.node)][:limit]
        if chosen:
            self._next_index = (self.keepers.index(chosen[-1]) + 1) % len(self.keepers)
        await asyncio.gather(*(self._try_send_head(keeper) for keeper in chosen))

    @property
    def acknowledged_count(self) -> int:
        """The number of keepers that have acknowledged a head since this start."""
        return sum(self._detector.acknowledged_head(keeper.node) is not None for keeper in self.keepers)

    async def appoint(self, is_due: Callable[[str], bool]) -> None:
        """Appoint new keepers if there are too few, and store those that have acknowledged a head in the ledger.

        Raises:
            PrivacyError: if the ledger cannot be written.
            LedgerError: see `notify_keepers`.
        """
        remaining = [keeper for keeper in self.keepers if not self._is_gone(keeper.node)]
        others = [
            peer
            for peer in self._peers()
            if peer.id not in self.nodes and peer.id not in self._failing_since and not self._has_left(peer.id)
        ]
        candidates = random.sample(others, min(KEEPERS - len(remaining), len(others)))
        chosen = [Witness(peer.id, (peer.address, *peer.others)) for peer in candidates]
        await asyncio.gather(*(self._try_send_head(keeper) for keeper in chosen if is_due(keeper.node)))
        appointed = [keeper for keeper in chosen if self._detector.acknowledged_head(keeper.node) is not None]
        if not appointed:
            return
        keepers = (*remaining, *appointed)
        await asyncio.get_running_loop().run_in_executor(None, self._vault.appoint, keepers)
        self.keepers, self._next_index = keepers, len(remaining)
        self._detector.keepers = self.nodes

    def note_answer(self, node: str) -> None:
        """Record that this node has answered."""
        self._failing_since.pop(node, None)

    def _is_gone(self, node: str) -> bool:
        """Return whether a node has left, or has been unreachable for more than REPLACE_AFTER_SECONDS."""
        since = self._failing_since.get(node, math.inf)
        return self._has_left(node) or time.monotonic() - since > REPLACE_AFTER_SECONDS

    async def _try_send_head(self, keeper: Witness) -> None:
        try:
            await self._send_head(self._find_peer(keeper))
        except (DeliveryFailed, MessageRefused):
            self._failing_since.setdefault(keeper.node, time.monotonic())
            self._detector.note_no_answer(keeper.node)

    def _find_peer(self, keeper: Witness) -> Peer:
        """Return a keeper with its current address if it is known, or else with its address when it was appointed."""
        known_peers = {peer.id: peer for peer in self._peers()}
        first, *others = keeper.endpoints
        return known_peers.get(keeper.node) or Peer(keeper.node, first, self._dns_name(keeper.node), tuple(others))


def abbreviate(nodes: Collection[str]) -> str:
    """Return the first three node ids as text, for messages to people."""
    shown_nodes = sorted(nodes)[:3]
    return ", ".join(shown_nodes) + (", …" if len(nodes) > len(shown_nodes) else "")
