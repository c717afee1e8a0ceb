"""Which task the other devices have, as every envelope says: no model goes to those of another, and all else does."""

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from typing import Any

from sottovoce.agent.ledger_head_gossip import Voice
from sottovoce.errors import MessageRefused
from sottovoce.task import Task, read
from sottovoce.transport import DeliveryFailed, Peer

_log = logging.getLogger(__name__)
TASK = "task/1"
"""The payload type of a question for a task document; the answer is the document."""

ANOTHER_TASK = "task"
"""The reason in a word for which a share of another task is refused."""

RECONSIDER_SECONDS = 600.0
"""After which a peer that has said nothing more of another task is believed to have this device's."""

_MOST_DEVICES, _MOST_DOCUMENTS = 4096, 16


@dataclass(frozen=True, slots=True)
class OtherTask:
    """A task that others have.

    Attributes:
        digest: of its document, hexadecimal.
        devices: that have it, as far as is known.
        differences: from this device's, in words; none while its document is not known.
    """

    digest: str
    devices: int
    differences: tuple[str, ...]


class Tasks:
    """This device's task, and those of the others.

    Args:
        own: this device's.
        voice: how to reach others.
    """

    def __init__(self, own: Task, voice: Voice) -> None:
        self.own = own
        self._voice = voice
        self._others: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self._documents: OrderedDict[bytes, Task | None] = OrderedDict()
        self._peers: tuple[str, ...] = ()
        self._spawn: Callable[[Coroutine[Any, Any, None]], None]
        self._find: Callable[[str], Peer | None]
        self._meet: Callable[[tuple[str, ...]], Coroutine[Any, Any, None]]

    def attend(
        self,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        find: Callable[[str], Peer | None],
        meet: Callable[[tuple[str, ...]], Coroutine[Any, Any, None]],
    ) -> None:
        """Begin.

        Args:
            spawn: runs something beside.
            find: a peer by its node id, if it is known.
            meet: told with whom the learner may mix, when that changes.
        """
        self._spawn, self._find, self._meet = spawn, find, meet

    def of_this(self, peers: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the peers with whom the learner may mix; `meet` is told when that changes."""
        self._peers = peers
        return tuple(node for node in peers if self.mixes(node))

    def mixes(self, node: str) -> bool:
        """Whether a device has this task, as far as is known."""
        _, heard = self._others.get(node, (b"", -float("inf")))
        return time.monotonic() - heard >= RECONSIDER_SECONDS

    def heard(self, node: str, digest: bytes) -> None:
        """A device has said which task it has."""
        before = self.mixes(node)
        if digest == self.own.digest:
            self._others.pop(node, None)
        else:
            self._others[node] = (digest, time.monotonic())
            self._others.move_to_end(node)
            if len(self._others) > _MOST_DEVICES:
                self._others.popitem(last=False)
            if digest not in self._documents and (peer := self._find(node)) is not None:
                self._documents[digest] = None  # one question at a time
                self._spawn(self._learn(peer, digest))
        if before != self.mixes(node):
            self._changed(node)

    def declined(self, node: str, task: bytes) -> None:
        """A device has refused a share that was sealed under a task, because its own is another."""
        if task != self.own.digest:
            return  # of a time at which this device had another
        digest, _ = self._others.get(node, (b"", 0.0))
        before = self.mixes(node)
        self._others[node] = (digest, time.monotonic())
        if before:
            self._changed(node)

    def others(self) -> list[OtherTask]:
        """The tasks of others, the most frequent first."""
        devices = Counter(digest for node, (digest, _) in self._others.items() if not self.mixes(node))
        found = []
        for digest, count in devices.most_common(_MOST_DOCUMENTS):
            document = self._documents.get(digest)
            found.append(OtherTask(digest.hex(), count, () if document is None else self.own.differences(document)))
        return found

    def document(self) -> dict[str, Any]:
        """For `agent status --json`."""
        return {"digest": self.own.digest.hex(), "others": [asdict(other) for other in self.others()]}

    def _changed(self, node: str) -> None:
        if node in self._peers:
            self._spawn(self._meet(self.of_this(self._peers)))
        if not self.mixes(node):
            loop = asyncio.get_running_loop()
            loop.call_later(RECONSIDER_SECONDS, lambda: self._changed(node) if self.mixes(node) else None)

    async def _learn(self, peer: Peer, digest: bytes) -> None:
        """Ask a peer for the document of its task."""
        voice = self._voice
        name = f"task:{peer.id}"
        raw = voice.seal(peer.id, TASK, b"")
        voice.counters.wire_bytes += len(raw)
        voice.waits.begin(name, f"{peer.address} to say what its task is", voice.timeout)
        try:
            document = read(await voice.transport.deliver(peer, raw, voice.timeout))
        except (DeliveryFailed, MessageRefused, ValueError):
            document = None
        finally:
            voice.waits.end(name)
        del self._documents[digest]
        if document is None or document.digest != digest:
            return  # the next envelope of that task asks anew
        self._documents[digest] = document
        while len(self._documents) > _MOST_DOCUMENTS:
            self._documents.popitem(last=False)
        _log.warning(
            "another-task peer=%s learns something else, and no model is exchanged with devices of its task: %s",
            peer.id,
            "; ".join(self.own.differences(document)),
        )
