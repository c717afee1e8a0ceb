"""Table of a device's links, which opens and closes them as peers come and go."""

import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from sottovoce.agent.link import Link
from sottovoce.agent.links import Outgoing
from sottovoce.transport import Peer

_log = logging.getLogger(__name__)


class LinkTable:
    """A device's links, one per peer.

    Args:
        make_link: returns a new link to a peer, not yet started.
        spawn: runs a coroutine in the background.
        find_peer: looks up a peer by node id outside the link table; returns None if there is none.
        is_blocked: returns whether sending to a node is forbidden.
        on_forget: called with the id of a node that no longer has a link.

    Attributes:
        links: links by node id.
    """

    def __init__(
        self,
        *,
        make_link: Callable[[Peer], Link],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        find_peer: Callable[[str], Peer | None],
        is_blocked: Callable[[str], bool],
        on_forget: Callable[[str], None],
    ) -> None:
        self.links: dict[str, Link] = {}
        self._make_link = make_link
        self._spawn = spawn
        self._find_peer = find_peer
        self._is_blocked = is_blocked
        self._on_forget = on_forget

    def open(self, peer: Peer) -> Link:
        """Create a link to a peer, and start it."""
        link = self.links[peer.id] = self._make_link(peer)
        self._spawn(link.run())
        return link

    def linked_peers(self) -> list[Peer]:
        """Return the peers that have a link."""
        return [link.peer for link in self.links.values()]

    def find(self, node: str) -> Peer | None:
        """Return the peer with this node id, or None if it is unknown."""
        link = self.links.get(node)
        return self._find_peer(node) if link is None else link.peer

    def replace_peers(self, peers: Iterable[Peer]) -> None:
        """Replace the peers; a link to a removed peer stays open while it has an undelivered message."""
        peers_by_id = {peer.id: peer for peer in peers}
        for node, peer in peers_by_id.items():
            if node in self.links:
                self.links[node].peer = peer
                self.links[node].retry_now()
            else:
                self.open(peer)
        for node in [node for node, link in self.links.items() if node not in peers_by_id and link.is_idle]:
            self.forget(node)

    def wake_link(self, node: str) -> None:
        """Make a failing link retry immediately, because its peer has sent something."""
        link = self.links.get(node)
        if link is not None and link.failures:
            link.retry_now()

    def offer(self, outgoing: Outgoing) -> None:
        """Deliver a message over the link to its recipient; open the link first if only the recipient is known."""
        recipient = outgoing.recipient
        if self._is_blocked(recipient):
            return
        link = self.links.get(recipient)
        if link is None and (peer := self._find_peer(recipient)) is not None:
            link = self.open(peer)
        if link is None:
            _log.warning(
                "share-stranded peer=%s the peer's address is no longer known; its share will be sent once the "
                "peer is rediscovered or listed under [transport]",
                recipient,
            )
            return
        link.offer(outgoing)

    def forget(self, recipient: str) -> None:
        """Remove the link and stop it after the attempt in progress; if the peer returns, a new link is opened."""
        if (link := self.links.pop(recipient, None)) is not None:
            link.stop()
            self._on_forget(recipient)
