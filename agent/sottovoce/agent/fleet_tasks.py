"""Tasks that the fleet has signed: the newest task is stored, forwarded, and started when its time has come.

A device with a new task notifies each linked peer once; and a device that receives a message from a peer with another
task asks it for that task. So a device that was off learns of the new task from the first peer that has changed
over, and a fleet whose task does not change sends nothing.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Executor
from pathlib import Path
from typing import Annotated, Any

from msgspec import DecodeError, Meta, Struct, ValidationError, json

from sottovoce.agent.document_gossip import DocumentGossip
from sottovoce.agent.ledger_head_gossip import Voice
from sottovoce.errors import IdentityError, MessageRefused, SottovoceError, TaskRefused
from sottovoce.identity import Fleet, Trust
from sottovoce.identity.authority import Authority, RetiredKey
from sottovoce.identity.files import replace
from sottovoce.identity.signed_task import SignedTask, read_task
from sottovoce.task import LARGEST_SIGNED
from sottovoce.transport import Peer
from sottovoce.wire.version_offer import VersionOffer

_log = logging.getLogger(__name__)
NAME = "task"
FLEET_TASK = "fleet-task/1"
"""Payload type by which devices report which of the fleet's tasks they hold."""

_WAIT = "task"
_LOOK_SECONDS = 10.0
_AGAIN_SECONDS = 600.0  # before this device retries a step for which something was missing
_ASK_EVERY_SECONDS = 30.0  # between two questions to one peer
_MAX_REMEMBERED = 1024


class _Payload(Struct, frozen=True, forbid_unknown_fields=True):
    """Task that a device has: its epoch, 0 for none; and the task itself, if the recipient lacks it."""

    epoch: Annotated[int, Meta(ge=0, le=2**53)]
    task: SignedTask | None = None


def kept_task(directory: Path, authority: Authority) -> SignedTask | None:
    """Return the newest task in a device's or the fleet's directory; None if it is missing or a retired key signed it.

    Raises:
        IdentityError: if it cannot be read, or does not belong to this fleet.
    """
    path = directory / NAME
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IdentityError(f"{path} cannot be read: {error.strerror}; fix its owner or mode") from error
    task = read_task(raw, path)
    try:
        task.verify(authority)
    except RetiredKey:
        return None
    return task


def keep_task(directory: Path, task: SignedTask, authority: Authority) -> bool:
    """Store a verified task in a directory unless it or a newer task is there; return whether it was stored.

    Raises:
        IdentityError: if it cannot be written, or the present file is damaged.
    """
    present = kept_task(directory, authority)
    if present is not None and present.epoch >= task.epoch:
        return False
    replace(directory / NAME, task.encoded)
    return True


def propose(directory: Path, fleet: Fleet, tables: dict[str, dict[str, Any]], when: dict[str, Any]) -> SignedTask:
    """Sign a task of the next epoch, and keep it beside the fleet's key.

    Args:
        directory: directory of the fleet.
        fleet: opened with its key.
        tables: see SignedTask.
        when: begins, ends, purpose and period, as far as given; the period defaults to that of the previous task.

    Raises:
        IdentityError: if a file beside the key is damaged or cannot be written, or the task is too large.
    """
    previous = kept_task(directory, fleet.authority)
    epoch, period = (1, 0) if previous is None else (previous.epoch + 1, previous.period)
    if (wanted := when.get("period", period)) < period:
        raise IdentityError(f"task.period: {wanted} has passed: the previous task is of period {period}")
    fields = {
        "fleet": fleet.name,
        "epoch": epoch,
        "issued": int(time.time()),
        "period": period,
        "keys": fleet.changes,
        **when,
    }
    task = SignedTask(tables=tables, **fields).signed(fleet.sign)
    read_task(task.encoded, "this task")
    keep_task(directory, task, fleet.authority)
    return task


class FleetTasks:
    """Distribution of the fleet's tasks by one device.

    Args:
        trust: trust in the fleet's signatures.
        state: the directory where the newest task is kept.
        voice: connection to peers.
        epoch: epoch of the task that this device has taken up; 0 before any.
        take_up: activates another task in the vault; see sottovoce.agent.task_activator.

    Attributes:
        held: the newest task known.
        because: reason why it has not been activated; None if it has been, or if activation has not been tried yet.
    """

    def __init__(
        self, *, trust: Trust, state: Path, voice: Voice, epoch: int, take_up: Callable[[bytes], None]
    ) -> None:
        self._trust, self._state, self._voice = trust, state, voice
        self.epoch = epoch
        self._take_up = take_up
        self._signed = trust.identity.mode == "fleet-ca"
        self.held = self._read_installed() if self._signed else None
        self.because: str | None = None
        self._peers: Callable[[], Collection[Peer]] = list
        self._disk: Executor | None = None
        self._spawn: Callable[[Coroutine[Any, Any, None]], None]
        self._change: Callable[[], None]
        self._awake = asyncio.Event()
        self._retry_at = 0.0
        self._spread = DocumentGossip(voice, FLEET_TASK, _encoded, _decoded, self._current_offer, self._accept_task)
        self._asked: OrderedDict[str, float] = OrderedDict()

    def attach(
        self,
        disk: Executor,
        peers: Callable[[], Collection[Peer]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        change: Callable[[], None],
    ) -> None:
        """Set the executor for writes, and the functions for linked peers, background work and a change of task."""
        self._disk, self._peers, self._spawn, self._change = disk, peers, spawn, change

    @property
    def newest(self) -> int:
        """Epoch of the newest task known; 0 for none."""
        return 0 if self.held is None else self.held.epoch

    @property
    def behind(self) -> bool:
        """Return whether a newer task than the active task has begun."""
        return self.held is not None and self.newest > self.epoch and self.held.begins <= time.time()

    def document(self) -> dict[str, Any]:
        """Return the part of `agent status` with the present epoch, and any newer inactive task with the reason."""
        waiting = None
        if self.held is not None and self.newest > self.epoch:
            name = str(self.held.tables.get("task", {}).get("name", ""))
            waiting = {"epoch": self.newest, "name": name, "begins": self.held.begins, "because": self.because}
        return {"epoch": self.epoch, "next": waiting}

    async def run(self, stopping: asyncio.Event) -> None:
        """Forward a new task, and start it when its time has come, until stopped."""
        while self._signed and not stopping.is_set():
            self._awake.clear()
            if await self._try_take_up():
                self._change()
                return
            await self._tell_all()
            self._voice.waits.begin(_WAIT, "the next look for a task of the fleet", _LOOK_SECONDS)
            stop = asyncio.ensure_future(stopping.wait())
            woken = asyncio.ensure_future(self._awake.wait())
            await asyncio.wait({stop, woken}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            woken.cancel()
        self._voice.waits.end(_WAIT)

    async def reload(self) -> None:
        """Read the task's file again; an operator may have replaced it."""
        if self._signed:
            self._adopt(await asyncio.get_running_loop().run_in_executor(self._disk, self._read_installed))

    def retry_now(self) -> None:
        """Retry at once: the owner may have answered, or there may be a newer task."""
        self._retry_at = 0.0
        self._awake.set()

    def note_other_task(self, peer: Peer) -> None:
        """Note that a peer has another task, which may be newer or older than this device's."""
        now, alike = time.monotonic(), self._spread.known_version(peer.id) == self.newest
        pause = _AGAIN_SECONDS if alike else _ASK_EVERY_SECONDS
        if self._signed and now - self._asked.get(peer.id, -pause) >= pause:
            self._asked[peer.id] = now
            self._asked.move_to_end(peer.id)
            if len(self._asked) > _MAX_REMEMBERED:
                self._asked.popitem(last=False)
            self._spawn(self._tell(peer))

    async def receive(self, sender: str, payload: bytes) -> bytes:
        """Process a peer's task, and answer with this device's task.

        Raises:
            MessageRefused: if it is malformed, or not signed by the fleet.
        """
        return await self._spread.answer(sender, _decoded(payload))

    async def _try_take_up(self) -> bool:
        """Try to activate another task; return whether one was activated just now."""
        task = self.held
        if task is None or task.epoch <= self.epoch or time.monotonic() < self._retry_at:
            return False
        if (left := task.begins - time.time()) > 0:
            self.because = f"it begins in {left:.0f} s"
            return False
        try:
            await asyncio.get_running_loop().run_in_executor(None, lambda: self._take_up(task.encoded))
        except TaskRefused as refused:
            self._note(task, str(refused))
        except Exception as error:  # noqa: BLE001 - whatever error a task causes, the present task continues
            self._note(task, str(error) if isinstance(error, SottovoceError) else f"it failed ({type(error).__name__})")
            self._retry_at = time.monotonic() + _AGAIN_SECONDS
        else:
            _log.info("task-taken-up epoch=%d before=%d", task.epoch, self.epoch)
            return True
        return False

    def _read_installed(self) -> SignedTask | None:
        """Return the task in the state directory."""
        try:
            return kept_task(self._state, self._trust.identity.authority)
        except IdentityError as error:
            _log.error("task-not-read %s", error)
            return None

    def _store_task(self, task: SignedTask) -> None:
        try:
            keep_task(self._state, task, self._trust.identity.authority)
        except IdentityError as error:  # peers send it again
            _log.error("task-not-kept %s", error)

    def _note(self, task: SignedTask, why: str) -> None:
        if why != self.because:
            _log.warning("task-not-taken-up epoch=%d: %s; this device keeps its present task", task.epoch, why)
        self.because = why

    async def _tell_all(self) -> None:
        """Send the newest task to peers that are not known to hold it."""
        uninformed = [peer for peer in self._peers() if self._spread.known_version(peer.id) < self.newest]
        await asyncio.gather(*(self._tell(peer) for peer in uninformed))

    async def _tell(self, peer: Peer) -> None:
        if (failure := await self._spread.tell(peer)) is not None:
            _log.debug("task-not-told %s", failure)

    def _current_offer(self) -> VersionOffer[SignedTask]:
        return VersionOffer(self.newest, self.held)

    async def _accept_task(self, peer: str, task: SignedTask) -> None:
        """Store a task from a peer that is newer than the held task."""
        if task.epoch <= self.newest or not self._signed:
            return
        authority = self._trust.identity.authority
        try:
            task.verify(authority)
        except IdentityError as error:
            raise MessageRefused("signature", f"{peer} sent a task that is not valid: {error}") from error
        await asyncio.get_running_loop().run_in_executor(self._disk, lambda: self._store_task(task))
        self._adopt(task)

    def _adopt(self, task: SignedTask | None) -> None:
        if task is not None and task.epoch > self.newest:
            self.held, self.because = task, None
            self.retry_now()


def _encoded(offer: VersionOffer[SignedTask]) -> bytes:
    return json.encode(_Payload(offer.version, offer.document), order="sorted")


def _decoded(payload: bytes) -> VersionOffer[SignedTask]:
    """Return a peer's message, decoded and not verified yet.

    Raises:
        MessageRefused: if it is malformed, or too large.
    """
    if len(payload) > LARGEST_SIGNED + 1024:
        raise MessageRefused("size", f"a task of {len(payload)} bytes exceeds the limit of {LARGEST_SIGNED}")
    try:
        read = json.decode(payload, type=_Payload)
    except (DecodeError, ValidationError, UnicodeError, RecursionError) as error:
        raise MessageRefused("malformed", f"this version does not know this task: {error}") from error
    offer = VersionOffer(read.epoch, read.task)
    if _encoded(offer) != payload:
        raise MessageRefused("malformed", "a fleet task is not in its canonical form")
    return offer
