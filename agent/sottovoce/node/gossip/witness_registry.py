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

from sottovoce.errors import MessageRefused
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.node.gossip.rollback_detector import RollbackDetector
from sottovoce.privacy.vault import VaultInterface, Witness

WITNESSES = 8
"""Number of witnesses. If half of the fleet is unreachable, one device in 256 reaches none of its witnesses."""

NOTIFIED_PER_CHARGE = WITNESSES // 2
"""Number of witnesses that are notified after each charge, in rotation.

After a second charge, all witnesses have been notified. At startup, all of them are asked.
"""

REPLACE_AFTER_SECONDS = 3 * 86_400.0
"""Time after which an unreachable witness is replaced, in seconds since the first failed attempt."""


class WitnessRegistry:
    """Registry of a device's witnesses, which appoints them and sends them ledger heads.

    Args:
        vault: the vault, which stores the list of witnesses in the ledger.
        detector: evaluates the witnesses' answers.
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
        self.witnesses = vault.witnesses()
        self._vault = vault
        self._detector = detector
        self._send_head = send_head
        self._dns_name = dns_name
        self._peers: Callable[[], list[Peer]] = list
        self._has_left: Callable[[str], bool] = lambda node: False
        self._next_index = 0
        self._failing_since: dict[str, float] = {}
        detector.witnesses = self.nodes

    def attach(self, peers: Callable[[], list[Peer]], has_left: Callable[[str], bool]) -> None:
        """Set the callbacks for the known peers, and for whether a node has left or is excluded from the fleet."""
        self._peers, self._has_left = peers, has_left

    @property
    def nodes(self) -> frozenset[str]:
        """The witnesses' node ids."""
        return frozenset(witness.node for witness in self.witnesses)

    async def notify_witnesses(self, is_due: Callable[[str], bool], limit: int) -> None:
        """Send the head to at most `limit` witnesses for which it is due, in turn, and record which do not answer.

        Raises:
            LedgerError: if a witness knows a newer head, or a head from a diverged history.
        """
        order = [*self.witnesses[self._next_index :], *self.witnesses[: self._next_index]]
        chosen = [witness for witness in order if is_due(witness.node)][:limit]
        if chosen:
            self._next_index = (self.witnesses.index(chosen[-1]) + 1) % len(self.witnesses)
        await asyncio.gather(*(self._try_send_head(witness) for witness in chosen))

    @property
    def acknowledged_count(self) -> int:
        """The number of witnesses that have acknowledged a head since this start."""
        return sum(self._detector.acknowledged_head(witness.node) is not None for witness in self.witnesses)

    async def appoint(self, is_due: Callable[[str], bool]) -> None:
        """Appoint new witnesses if there are too few, and store those that have acknowledged a head in the ledger.

        Raises:
            PrivacyError: if the ledger cannot be written.
            LedgerError: see `notify_witnesses`.
        """
        remaining = [witness for witness in self.witnesses if not self._is_gone(witness.node)]
        others = [
            peer
            for peer in self._peers()
            if peer.id not in self.nodes and peer.id not in self._failing_since and not self._has_left(peer.id)
        ]
        candidates = random.sample(others, min(WITNESSES - len(remaining), len(others)))
        chosen = [Witness(peer.id, (peer.address, *peer.others)) for peer in candidates]
        await asyncio.gather(*(self._try_send_head(witness) for witness in chosen if is_due(witness.node)))
        appointed = [witness for witness in chosen if self._detector.acknowledged_head(witness.node) is not None]
        if not appointed:
            return
        witnesses = (*remaining, *appointed)
        await asyncio.get_running_loop().run_in_executor(None, self._vault.appoint, witnesses)
        self.witnesses, self._next_index = witnesses, len(remaining)
        self._detector.witnesses = self.nodes

    def note_answer(self, node: str) -> None:
        """Record that this node has answered."""
        self._failing_since.pop(node, None)

    def _is_gone(self, node: str) -> bool:
        """Return whether a node has left, or has been unreachable for more than REPLACE_AFTER_SECONDS."""
        since = self._failing_since.get(node, math.inf)
        return self._has_left(node) or time.monotonic() - since > REPLACE_AFTER_SECONDS

    async def _try_send_head(self, witness: Witness) -> None:
        try:
            await self._send_head(self._find_peer(witness))
        except (DeliveryFailed, MessageRefused):
            self._failing_since.setdefault(witness.node, time.monotonic())
            self._detector.note_no_answer(witness.node)

    def _find_peer(self, witness: Witness) -> Peer:
        """Return a witness as a peer, with its current address if known, otherwise its address when appointed."""
        known_peers = {peer.id: peer for peer in self._peers()}
        first, *others = witness.endpoints
        return known_peers.get(witness.node) or Peer(witness.node, first, self._dns_name(witness.node), tuple(others))


def abbreviate(nodes: Collection[str]) -> str:
    """Return the first three node ids as text, for messages to people."""
    shown_nodes = sorted(nodes)[:3]
    return ", ".join(shown_nodes) + (", …" if len(nodes) > len(shown_nodes) else "")
