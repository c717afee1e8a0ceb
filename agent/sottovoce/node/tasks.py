"""Tasks that other devices report. Devices with different tasks exchange everything except models."""

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from sottovoce.errors import MessageRefused
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.node.fleet_tasks import FleetTasks
from sottovoce.node.gossip.ledger_head_gossip import Messenger
from sottovoce.ops import RateLimitedLog
from sottovoce.task import Task, read

_log = logging.getLogger(__name__)
TASK = "task/1"
"""Payload type of a request for a task document; the answer is the document."""

ANOTHER_TASK = "task"
"""One-word reason for refusing a share of another task."""

RECONSIDER_SECONDS = 600.0
"""Seconds after which a peer that has not repeated its report of another task is assumed to have this device's task."""

_MIN_REQUEST_SECONDS = 60.0  # between two requests to the same peer
_MAX_DEVICES, _MAX_DOCUMENTS, _MAX_REQUESTS = 4096, 16, 4
_MAX_CHANGES = 4  # task changes within RECONSIDER_SECONDS; a device that makes more stays excluded


@dataclass(frozen=True, slots=True)
class _TaskReport:
    """A device's report about its task.

    Attributes:
        digest: digest of the device's task, while it differs from this device's task.
        until: time until which the report excludes the device from mixing, on the monotonic clock.
        changes: number of times that the device has returned to this device's task before that time.
    """

    digest: bytes
    until: float
    changes: int = 0


class Tasks:
    """This device's task, and the tasks that other devices report.

    Args:
        own_task: this device's task.
        messenger: connection to other devices.
        fleet_tasks: tasks that the fleet has signed.

    Attributes:
        peers: devices that the learner may mix with if they have this task.
    """

    def __init__(self, own_task: Task, messenger: Messenger, fleet_tasks: FleetTasks) -> None:
        self.own_task, self.fleet_tasks = own_task, fleet_tasks
        self.peers: tuple[str, ...] = ()
        self._messenger = messenger
        self._reports: OrderedDict[str, _TaskReport] = OrderedDict()
        self._differences: OrderedDict[bytes, tuple[str, ...]] = OrderedDict()
        self._requested_digests: set[bytes] = set()
        self._requested_at: OrderedDict[str, float] = OrderedDict()
        self._announced_peers: tuple[str, ...] = ()
        self._recheck_timer: asyncio.TimerHandle | None = None
        self._sparse_log = RateLimitedLog(_log)
        self._spawn: Callable[[Coroutine[Any, Any, None]], None]
        self._find: Callable[[str], Peer | None]
        self._on_peers_changed: Callable[[], Coroutine[Any, Any, None]]

    def attach(
        self,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        find: Callable[[str], Peer | None],
        on_peers_changed: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Connect this object to the agent.

        Args:
            spawn: runs a coroutine in the background.
            find: returns the peer with a node id, or None if it is not known.
            on_peers_changed: called when the result of `announce_mixing_peers()` has changed; gives the learner these
                peers to mix with.
        """
        self._spawn, self._find, self._on_peers_changed = spawn, find, on_peers_changed

    def announce_mixing_peers(self) -> tuple[str, ...]:
        """Return the peers with which the learner may mix, and record that they were announced to the learner."""
        self._announced_peers = self._mixing_peers()
        return self._announced_peers

    def shares_task_with(self, node: str) -> bool:
        """Return whether a device has the same task as this one; this is assumed until it reports a different task."""
        report = self._reports.get(node)
        return report is None or time.monotonic() >= report.until

    def note_task(self, node: str, digest: bytes) -> None:
        """Record which task a device has reported."""
        report, now = self._reports.get(node), time.monotonic()
        changes = 0 if report is None or now >= report.until + RECONSIDER_SECONDS else report.changes
        if digest != self.own_task.digest:
            self._store_report(node, _TaskReport(digest, now + RECONSIDER_SECONDS, changes))
            self._request_document(node, digest)
            if (peer := self._find(node)) is not None:
                self.fleet_tasks.note_other_task(peer)
        elif report is not None and changes < _MAX_CHANGES:
            self._store_report(node, _TaskReport(b"", now, changes + (now < report.until)))

    def note_refusal(self, node: str, task: bytes) -> None:
        """Record that a device has refused a share sealed under `task`, because the device has another task."""
        if task == self.own_task.digest:  # the share is not from an earlier task of this device
            report = self._reports.get(node, _TaskReport(b"", 0.0))
            self._store_report(node, _TaskReport(report.digest, time.monotonic() + RECONSIDER_SECONDS, report.changes))

    @property
    def other_task_count(self) -> int:
        """Number of devices whose task differs from this device's task."""
        return sum(not self.shares_task_with(node) for node in self._reports)

    def to_dict(self) -> dict[str, Any]:
        """Return the task section of `agent status --json`, with the most common of the other tasks first.

        For each of the other tasks, the section contains its digest, the number of devices known to have it, and the
        differences from this device's task in words, which are empty until the task's document is known.
        """
        devices = Counter(report.digest for node, report in self._reports.items() if not self.shares_task_with(node))
        others = [
            {"digest": digest.hex(), "devices": count, "differences": self._differences.get(digest, ())}
            for digest, count in devices.most_common(_MAX_DOCUMENTS)
        ]
        return {"digest": self.own_task.digest.hex(), "others": others, **self.fleet_tasks.to_dict()}

    def _store_report(self, node: str, report: _TaskReport) -> None:
        self._reports[node] = report
        self._reports.move_to_end(node)
        if len(self._reports) > _MAX_DEVICES:
            self._reports.popitem(last=False)
        self._update_mixing_peers()

    def _update_mixing_peers(self) -> None:
        """Inform the learner if its peers have changed, and schedule another check for when a report expires."""
        if self._mixing_peers() != self._announced_peers:
            self._spawn(self._on_peers_changed())
        expiries = [self._reports[node].until for node in self.peers if not self.shares_task_with(node)]
        if expiries and self._recheck_timer is None:
            pause = max(0.0, min(expiries) - time.monotonic())
            self._recheck_timer = asyncio.get_running_loop().call_later(pause, self._recheck_mixing_peers)

    def _mixing_peers(self) -> tuple[str, ...]:
        return tuple(node for node in self.peers if self.shares_task_with(node))

    def _recheck_mixing_peers(self) -> None:
        self._recheck_timer = None
        self._update_mixing_peers()

    def _request_document(self, node: str, digest: bytes) -> None:
        """Request a peer's task document in the background, unless it is known or too many requests are pending."""
        now, peer = time.monotonic(), self._find(node)
        is_known = digest in self._differences or digest in self._requested_digests
        if peer is None or is_known or len(self._requested_digests) >= _MAX_REQUESTS:
            return
        if now - self._requested_at.get(node, -_MIN_REQUEST_SECONDS) < _MIN_REQUEST_SECONDS:
            return
        self._requested_at[node] = now
        self._requested_at.move_to_end(node)
        if len(self._requested_at) > _MAX_DEVICES:
            self._requested_at.popitem(last=False)
        self._requested_digests.add(digest)
        self._spawn(self._fetch_document(peer, digest))

    async def _fetch_document(self, peer: Peer, digest: bytes) -> None:
        messenger = self._messenger
        name = f"task:{peer.id}"
        messenger.waits.begin(name, f"{peer.address} to state its task", messenger.timeout)
        try:
            raw = messenger.seal(peer.id, TASK, b"")
            messenger.counters.wire_bytes += len(raw)
            document = read(await messenger.transport.deliver(peer, raw, messenger.timeout))
        except (DeliveryFailed, MessageRefused, ValueError):
            return  # the next report of that task triggers another request
        finally:
            messenger.waits.end(name)
            self._requested_digests.discard(digest)
        if document.digest != digest:
            return
        self._differences[digest] = self.own_task.differences(document)
        while len(self._differences) > _MAX_DOCUMENTS:
            self._differences.popitem(last=False)
        text = "another-task peer=%s has a different task, so no models are exchanged with devices that have it: %s"
        self._sparse_log.log(logging.WARNING, peer.id, text, peer.id, "; ".join(self._differences[digest]))
