"""Tasks that other devices report, and the fleet's roll call.

Devices with different tasks exchange everything except models. In a roll call, a device reports its condition when
asked, and asks other devices on its operator's behalf.
"""

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import DecodeError, Meta, Struct, ValidationError, json

import sottovoce
from sottovoce.errors import MessageRefused
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.node.gossip.fleet_tasks import FleetTasks
from sottovoce.node.gossip.messenger import Messenger
from sottovoce.node.host import Host
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
ROLL_CALL = "roll-call/1"

Health = Literal["well", "behind", "apart"]
"""A device's health: `behind` if a newer fleet task has begun, `apart` if no peer accepts its messages, else `well`."""

_WAIT = "roll-call"
_TOTAL_SECONDS, _EACH_SECONDS = 8.0, 3.0
_MAX_CONCURRENT = 64
_MAX_ANSWER_BYTES = 1024
_Word = Annotated[str, Meta(max_length=64)]


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
        host: the agent's surroundings.
        own_task: this device's task.
        messenger: connection to other devices.
        fleet_tasks: tasks that the fleet has signed.

    Attributes:
        peers: devices that the learner may mix with if they have this task.
    """

    def __init__(self, host: Host, own_task: Task, messenger: Messenger, fleet_tasks: FleetTasks) -> None:
        self.own_task, self.fleet_tasks = own_task, fleet_tasks
        self.peers: tuple[str, ...] = ()
        self._host, self._messenger = host, messenger
        self._reports: OrderedDict[str, _TaskReport] = OrderedDict()
        self._differences: OrderedDict[bytes, tuple[str, ...]] = OrderedDict()
        self._requested_digests: set[bytes] = set()
        self._requested_at: OrderedDict[str, float] = OrderedDict()
        self._announced_peers: tuple[str, ...] = ()
        self._recheck_timer: asyncio.TimerHandle | None = None
        self._sparse_log = RateLimitedLog(_log)
        self._subscribers: list[Callable[[], Coroutine[Any, Any, None]]] = []

    def subscribe(self, callback: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Register a coroutine function that is called when the result of `announce_mixing_peers()` has changed."""
        self._subscribers.append(callback)

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
            if (peer := self._host.find(node)) is not None:
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
            for callback in self._subscribers:
                self._host.spawn(callback())
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
        now, peer = time.monotonic(), self._host.find(node)
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
        self._host.spawn(self._fetch_document(peer, digest))

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


class Condition(Struct, frozen=True):
    """A device's report about itself; fields added by later releases are ignored.

    Attributes:
        release: version of Sottovoce that the device runs.
        epoch: epoch of the fleet task in progress; 0 for none.
        health: health of the device, in one word.
        task: digest of the device's task, in hexadecimal digits.
    """

    release: _Word
    epoch: Annotated[int, Meta(ge=0, le=2**53)]
    health: _Word
    task: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class RollCall:
    """One device's side of the roll call: answers it, and collects other devices' answers.

    Args:
        host: the agent's surroundings.
        messenger: connection to other devices.
        tasks: this device's task, and its fleet's tasks.
    """

    def __init__(self, host: Host, messenger: Messenger, tasks: Tasks) -> None:
        self._host, self._messenger, self._tasks = host, messenger, tasks

    def own_condition(self) -> Condition:
        """Return this device's condition."""
        task, epoch = self._tasks.own_task, self._tasks.fleet_tasks.epoch
        return Condition(sottovoce.__version__, epoch, self._health(), task.digest.hex())

    def answer(self) -> bytes:
        """Return this device's report, encoded for a device of the fleet that asks for it."""
        raw = json.encode(self.own_condition())
        self._messenger.counters.wire_bytes += len(raw)
        return raw

    async def collect_conditions(self, nodes: Iterable[str]) -> dict[str, Condition]:
        """Return, by node id, the conditions of the devices that answer within a few seconds."""
        conditions: dict[str, Condition] = {}
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

        async def ask(peer: Peer) -> None:
            async with semaphore, asyncio.timeout(_EACH_SECONDS):
                conditions[peer.id] = await self._ask_peer(peer)

        peers = [peer for node in nodes if (peer := self._host.find_known(node)) is not None]
        requests = [asyncio.ensure_future(ask(peer)) for peer in peers]
        if requests:
            self._messenger.waits.begin(_WAIT, "the fleet's devices to answer a roll call", _TOTAL_SECONDS)
            _, late = await asyncio.wait(requests, timeout=_TOTAL_SECONDS)
            for request in late:
                request.cancel()
            outcomes = await asyncio.gather(*requests, return_exceptions=True)
            self._messenger.waits.end(_WAIT)
            for outcome in outcomes:
                if isinstance(outcome, BaseException) and not isinstance(outcome, _NO_ANSWER_ERRORS):
                    raise outcome
        return conditions

    async def _ask_peer(self, peer: Peer) -> Condition:
        messenger = self._messenger
        raw = messenger.seal(peer.id, ROLL_CALL, b"")
        messenger.counters.wire_bytes += len(raw)
        return _decode(await messenger.transport.deliver(peer, raw, min(messenger.timeout, _EACH_SECONDS)))

    def _health(self) -> Health:
        links = self._host.links.values()
        if links and all(link.failures for link in links):
            return "apart"
        return "behind" if self._tasks.fleet_tasks.is_behind else "well"


_NO_ANSWER_ERRORS = (DeliveryFailed, MessageRefused, TimeoutError, asyncio.CancelledError)


def _decode(raw: bytes) -> Condition:
    """Decode an answer; raise MessageRefused if it is malformed."""
    try:
        if len(raw) > _MAX_ANSWER_BYTES:
            raise ValidationError(f"{len(raw)} bytes")
        return json.decode(raw, type=Condition)
    except (DecodeError, ValidationError, UnicodeError, RecursionError) as error:
        raise MessageRefused("malformed", f"malformed answer to the roll call: {error}") from error
