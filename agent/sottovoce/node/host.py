"""The surroundings of an agent's parts: a thread for files, background tasks, links, and the known peers."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from sottovoce_bootstrap import Membership

from sottovoce.concurrency import ThreadPool
from sottovoce.fleet import Trust, peer_dns_name
from sottovoce.net.transports import Peer

T = TypeVar("T")


class PeerLink(Protocol):
    """A link to a peer, with the number of consecutive failed deliveries."""

    peer: Peer
    failures: int


class Host:
    """The surroundings of an agent's parts; each part gets it when it is made.

    Args:
        trust: this device's identity, and the devices that it refuses.
        peers: the configured peers; empty if peers are sampled.
        membership: the devices that are known by sampling; None if the peers are configured.

    Attributes:
        disk: a single thread, on which the core runs and the state directory's files are read and written.
        links: links by node id, which a LinkTable opens.
        stopping: set when the agent is to stop.
        failure: the first failure of a background task, or None.
        has_model: whether the learner has published a model since the start.
    """

    def __init__(self, trust: Trust, peers: Sequence[Peer], membership: Membership | None) -> None:
        self.trust = trust
        self._peers, self._membership = peers, membership
        self.disk = ThreadPool(1)
        self.links: Mapping[str, PeerLink] = {}
        self.stopping = asyncio.Event()
        self.failure: BaseException | None = None
        self.has_model = False
        self._background_tasks: set[asyncio.Task[None]] = set()

    @property
    def peers(self) -> list[Peer]:
        """The configured peers that are not revoked."""
        return [peer for peer in self._peers if not self.trust.is_revoked(peer.id)]

    async def run_on_disk(self, operation: Callable[[], T]) -> T:
        """Return the result of an operation that the disk's thread has run."""
        return await asyncio.get_running_loop().run_in_executor(self.disk, operation)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background; if it fails, the agent stops with its failure."""
        if self.stopping.is_set():  # nothing would wait for the result
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._task_done)

    def fail(self, failure: BaseException) -> None:
        """Stop the agent, whose `run` then raises the first failure."""
        self.failure = self.failure or failure
        self.stopping.set()

    async def finish_tasks(self, timeout: float) -> None:  # noqa: ASYNC109 - tasks continue, and are not cancelled
        """Wait for the background tasks in progress."""
        if self._background_tasks:
            await asyncio.wait(self._background_tasks, timeout=timeout)

    def linked_peers(self) -> list[Peer]:
        """Return the peers that have a link."""
        return [link.peer for link in self.links.values()]

    def find(self, node: str) -> Peer | None:
        """Return the peer with this node id, or None if it is unknown."""
        link = self.links.get(node)
        return self.find_known(node) if link is None else link.peer

    def find_known(self, node: str) -> Peer | None:
        """Return the peer with this node id as configured or sampled, whether it has a link or not."""
        if self._membership is None:
            return next((peer for peer in self.peers if peer.id == node), None)
        contact = self._membership.find(node)
        return None if contact is None else self.make_peer(node, contact.endpoints)

    def make_peer(self, node: str, endpoints: Sequence[str]) -> Peer:
        """Return the device of this fleet that can be reached at one of these endpoints, the first one preferred."""
        first, *others = endpoints
        return Peer(node, first, peer_dns_name(node, self.trust.identity.fleet), tuple(others))

    def has_left(self, node: str) -> bool:
        """Return whether a device has left the fleet, or has been revoked."""
        return self.trust.is_revoked(node) or (self._membership is not None and self._membership.has_left(node))

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._background_tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.fail(failure)
