"""The tasks that the fleet has signed: the newest one is kept, passed on, and taken up when its time has come.

A device with a new task tells each peer that it has a link to, once; and a device that hears from a peer with another
task asks which task it holds. So a device that was off learns of the new task from the first peer that has changed
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
"""The payload type by which devices tell which of the fleet's tasks they hold."""

_WAIT = "task"
_LOOK_SECONDS = 10.0
_AGAIN_SECONDS = 600.0  # before this device retries what it could not do for want of something
_ASK_EVERY_SECONDS = 30.0  # between two questions to one peer
_MAX_REMEMBERED = 1024


class _Payload(Struct, frozen=True, forbid_unknown_fields=True):
    """A peer's holdings: the epoch, 0 for none; and the task, for a peer that lacks it."""

    epoch: Annotated[int, Meta(ge=0, le=2**53)]
    task: SignedTask | None = None


def kept_task(directory: Path, authority: Authority) -> SignedTask | None:
    """The newest task in a directory, a device's or the fleet's; None before any, or where a retired key has signed it.

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
    """Put a verified task into a directory unless it or a newer one is there; return whether it was put there.

    Raises:
        IdentityError: if it cannot be written, or the present file is damaged.
    """
    present = kept_task(directory, authority)
    if present is not None and present.epoch >= task.epoch:
        return False
    replace(directory / NAME, task.encoded)
    return True


def propose(directory: Path, fleet: Fleet, tables: dict[str, dict[str, Any]], when: dict[str, Any]) -> SignedTask:
    """Signs a task of the next epoch, and keeps it beside the fleet's key.

    Args:
        directory: the fleet's.
        fleet: opened with its key.
        tables: see SignedTask.
        when: begins, ends, purpose and period, each where it is given; by default the period of the task before.

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
    """One device's part in spreading the fleet's tasks.

    Args:
        trust: who is believed.
        state: the directory where the newest task is kept.
        voice: how to reach peers.
        epoch: epoch of the task that this device has taken up; 0 before any.
        take_up: takes up another, in the vault; see sottovoce.agent.task_activator.

    Attributes:
        held: the newest task known.
        because: why it has not been taken up, in words; None if it has been, or if that has not been tried yet.
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
        self._spread = DocumentGossip(voice, FLEET_TASK, _encoded, _decoded, self._held, self._take)
        self._asked: OrderedDict[str, float] = OrderedDict()

    def attend(
        self,
        disk: Executor,
        peers: Callable[[], Collection[Peer]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        change: Callable[[], None],
    ) -> None:
        """Connect the writer of files, the peers with links, background work, and the change to another task."""
        self._disk, self._peers, self._spawn, self._change = disk, peers, spawn, change

    @property
    def newest(self) -> int:
        """Epoch of the newest task known; 0 for none."""
        return 0 if self.held is None else self.held.epoch

    @property
    def behind(self) -> bool:
        """Whether a newer task has begun than the one that is worked on."""
        return self.held is not None and self.newest > self.epoch and self.held.begins <= time.time()

    def document(self) -> dict[str, Any]:
        """Part of `agent status`: the present epoch, and any newer task that is not taken up, with the reason."""
        waiting = None
        if self.held is not None and self.newest > self.epoch:
            name = str(self.held.tables.get("task", {}).get("name", ""))
            waiting = {"epoch": self.newest, "name": name, "begins": self.held.begins, "because": self.because}
        return {"epoch": self.epoch, "next": waiting}

    async def run(self, stopping: asyncio.Event) -> None:
        """Pass on a new task, and start it when its time has come, until stopped."""
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
        """Read the task's file again, which an operator may have replaced."""
        if self._signed:
            self._adopt(await asyncio.get_running_loop().run_in_executor(self._disk, self._read_installed))

    def look(self) -> None:
        """Try again at once: the owner may have answered, or there may be a newer task."""
        self._retry_at = 0.0
        self._awake.set()

    def heard_another(self, peer: Peer) -> None:
        """Note that a peer has another task: it may hold a newer one than this device, or the other way round."""
        now, alike = time.monotonic(), self._spread.known(peer.id) == self.newest
        pause = _AGAIN_SECONDS if alike else _ASK_EVERY_SECONDS
        if self._signed and now - self._asked.get(peer.id, -pause) >= pause:
            self._asked[peer.id] = now
            self._asked.move_to_end(peer.id)
            if len(self._asked) > _MAX_REMEMBERED:
                self._asked.popitem(last=False)
            self._spawn(self._tell(peer))

    async def receive(self, sender: str, payload: bytes) -> bytes:
        """Take in a peer's task, and answer with this device's.

        Raises:
            MessageRefused: if it is malformed, or not signed by the fleet.
        """
        return await self._spread.answer(sender, _decoded(payload))

    async def _try_take_up(self) -> bool:
        """Whether another task was taken up just now."""
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
        """The task in the state directory."""
        try:
            return kept_task(self._state, self._trust.identity.authority)
        except IdentityError as error:
            _log.error("task-not-read %s", error)
            return None

    def _keep(self, task: SignedTask) -> None:
        try:
            keep_task(self._state, task, self._trust.identity.authority)
        except IdentityError as error:  # peers tell it again
            _log.error("task-not-kept %s", error)

    def _note(self, task: SignedTask, why: str) -> None:
        if why != self.because:
            _log.warning("task-not-taken-up epoch=%d: %s; this device keeps its present task", task.epoch, why)
        self.because = why

    async def _tell_all(self) -> None:
        """Sends the newest task to peers that are not known to hold it."""
        uninformed = [peer for peer in self._peers() if self._spread.known(peer.id) < self.newest]
        await asyncio.gather(*(self._tell(peer) for peer in uninformed))

    async def _tell(self, peer: Peer) -> None:
        if (failure := await self._spread.tell(peer)) is not None:
            _log.debug("task-not-told %s", failure)

    def _held(self) -> VersionOffer[SignedTask]:
        return VersionOffer(self.newest, self.held)

    async def _take(self, peer: str, task: SignedTask) -> None:
        """Keep a newer task than the one that is held."""
        if task.epoch <= self.newest or not self._signed:
            return
        authority = self._trust.identity.authority
        try:
            task.verify(authority)
        except IdentityError as error:
            raise MessageRefused("signature", f"{peer} sent a task that is not valid: {error}") from error
        await asyncio.get_running_loop().run_in_executor(self._disk, lambda: self._keep(task))
        self._adopt(task)

    def _adopt(self, task: SignedTask | None) -> None:
        if task is not None and task.epoch > self.newest:
            self.held, self.because = task, None
            self.look()


def _encoded(offer: VersionOffer[SignedTask]) -> bytes:
    return json.encode(_Payload(offer.version, offer.document), order="sorted")


def _decoded(payload: bytes) -> VersionOffer[SignedTask]:
    """A peer's message, decoded and not verified yet.

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
