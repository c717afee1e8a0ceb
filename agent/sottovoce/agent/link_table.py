"""Table of a device's links, which are opened, used and closed as its peers come and go."""

import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from sottovoce.agent.link import Link
from sottovoce.agent.links import Outgoing
from sottovoce.transport import Peer

_log = logging.getLogger(__name__)


class LinkTable:
    """The links of a device, one for each peer.

    Args:
        make_link: returns a link to a peer, not started yet.
        spawn: runs a coroutine in the background.
        find_peer: returns a peer by its node id, from all sources besides the links; None if it is unknown.
        is_refused: returns whether sending to a node is forbidden.
        on_forget: called with a node that no longer has a link.

    Attributes:
        links: links by node id.
    """

    def __init__(
        self,
        *,
        make_link: Callable[[Peer], Link],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        find_peer: Callable[[str], Peer | None],
        is_refused: Callable[[str], bool],
        on_forget: Callable[[str], None],
    ) -> None:
        self.links: dict[str, Link] = {}
        self._make_link = make_link
        self._spawn = spawn
        self._find_peer = find_peer
        self._is_refused = is_refused
        self._on_forget = on_forget

    def open(self, peer: Peer) -> Link:
        """Open a link to a peer, and start it."""
        link = self.links[peer.id] = self._make_link(peer)
        self._spawn(link.run())
        return link

    def linked_peers(self) -> list[Peer]:
        """Return peers with a link."""
        return [link.peer for link in self.links.values()]

    def find(self, node: str) -> Peer | None:
        """Find a peer by its node id; None if it is unknown."""
        link = self.links.get(node)
        return self._find_peer(node) if link is None else link.peer

    def replace_peers(self, peers: Iterable[Peer]) -> None:
        """Replace the peers. A link with an undelivered message outlives its peer's departure."""
        chosen = {peer.id: peer for peer in peers}
        for node, peer in chosen.items():
            if node in self.links:
                self.links[node].peer = peer
                self.links[node].nudge()
            else:
                self.open(peer)
        for node in [node for node, link in self.links.items() if node not in chosen and link.is_idle]:
            self.forget(node)

    def wake_link(self, node: str) -> None:
        """Note that a device has sent something: a link that failed to reach it retries now, without a pause."""
        link = self.links.get(node)
        if link is not None and link.failures:
            link.nudge()

    def offer(self, outgoing: Outgoing) -> None:
        """Deliver a message over its recipient's link, which is opened if the recipient is known but has none."""
        recipient = outgoing.recipient
        if self._is_refused(recipient):
            return
        link = self.links.get(recipient)
        if link is None and (peer := self._find_peer(recipient)) is not None:
            link = self.open(peer)
        if link is None:
            _log.warning(
                "share-stranded peer=%s its address is no longer known: it gets its share once it is heard of again, "
                "or listed under [transport]",
                recipient,
            )
            return
        link.offer(outgoing)

    def forget(self, recipient: str) -> None:
        """Stop the link after the attempt in progress; a new link is opened if the peer comes back."""
        if (link := self.links.pop(recipient, None)) is not None:
            link.stop()
            self._on_forget(recipient)
