"""Tasks that the fleet has signed: a device stores the newest task, forwards it, and activates it when it begins.

A device with a new task notifies each linked peer once. A device that receives a message from a peer with another task
asks that peer for the task. As a result, a device that was off learns of a new task from the first peer that has
already switched, and a fleet whose task does not change sends nothing.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from msgspec import DecodeError, Meta, Struct, ValidationError, json

from sottovoce.errors import IdentityError, MessageRefused, SottovoceError, TaskRefused
from sottovoce.fleet.signed_task import SignedTask, load_task, store_task
from sottovoce.net.transports import Peer
from sottovoce.net.wire.version_offer import VersionOffer
from sottovoce.node.gossip.messenger import DocumentGossip, Messenger
from sottovoce.node.host import Host
from sottovoce.task import MAX_SIGNED_TASK_BYTES

_log = logging.getLogger(__name__)
FLEET_TASK = "fleet-task/1"
"""Payload type of the messages in which devices report the newest fleet task that they have."""

_WAIT = "task"
_CHECK_SECONDS = 10.0
_RETRY_SECONDS = 600.0  # pause before this device retries an activation that failed
_MIN_REQUEST_SECONDS = 30.0  # minimum time between two requests to one peer
_MAX_REMEMBERED = 1024
_MAX_PAYLOAD_BYTES = MAX_SIGNED_TASK_BYTES + 1024  # maximum size of an encoded task offer


class _Payload(Struct, frozen=True, forbid_unknown_fields=True):
    """The task that a device has: its epoch, or 0 for none, and the task itself if the recipient lacks it."""

    epoch: Annotated[int, Meta(ge=0, le=2**53)]
    task: SignedTask | None = None


class FleetTasks:
    """One device's handling of the fleet's tasks: receives, forwards and activates them.

    Args:
        host: the agent's surroundings; its trust verifies the fleet's signatures.
        state: directory in which the newest task is stored.
        messenger: connection to the peers.
        epoch: epoch of the task that this device has activated; 0 before the first.
        activate_task: activates another task in the vault; see sottovoce.node.task_activator.

    Attributes:
        newest_task: the newest known task.
        inactive_reason: reason why that task has not been activated; None if it is active, or if activation has not
            been tried yet.
    """

    def __init__(
        self, *, host: Host, state: Path, messenger: Messenger, epoch: int, activate_task: Callable[[bytes], None]
    ) -> None:
        self._host, self._trust = host, host.trust
        self._state, self._messenger = state, messenger
        self.epoch = epoch
        self._activate_task = activate_task
        self._is_signed = host.trust.identity.mode == "fleet-ca"
        self.newest_task = self._read_installed() if self._is_signed else None
        self.inactive_reason: str | None = None
        self._wake_event = asyncio.Event()
        self._retry_at = 0.0
        self._gossip = DocumentGossip(messenger, FLEET_TASK, _encode, _decode, self._current_offer, self._accept_task)
        self._asked_at: OrderedDict[str, float] = OrderedDict()

    @property
    def newest_epoch(self) -> int:
        """The epoch of the newest known task; 0 if there is none."""
        return 0 if self.newest_task is None else self.newest_task.epoch

    @property
    def is_behind(self) -> bool:
        """Return whether a task that is newer than the active one has begun."""
        return (
            self.newest_task is not None and self.newest_epoch > self.epoch and self.newest_task.begins <= time.time()
        )

    def to_dict(self) -> dict[str, Any]:
        """Return fields for `agent status`: the current epoch, and any newer task and why it is inactive."""
        pending = None
        if self.newest_task is not None and self.newest_epoch > self.epoch:
            name = str(self.newest_task.tables.get("task", {}).get("name", ""))
            pending = {
                "epoch": self.newest_epoch,
                "name": name,
                "begins": self.newest_task.begins,
                "because": self.inactive_reason,
            }
        return {"epoch": self.epoch, "next": pending}

    async def run(self) -> bool:
        """Forward new tasks and activate them when they begin; return whether one has been activated before the end."""
        stopping = self._host.stopping
        while self._is_signed and not stopping.is_set():
            self._wake_event.clear()
            if await self._try_activate():
                return True
            await self._inform_peers()
            self._messenger.waits.begin(_WAIT, "the next check for a fleet task", _CHECK_SECONDS)
            stop_task = asyncio.ensure_future(stopping.wait())
            wake_task = asyncio.ensure_future(self._wake_event.wait())
            await asyncio.wait({stop_task, wake_task}, timeout=_CHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            stop_task.cancel()
            wake_task.cancel()
        self._messenger.waits.end(_WAIT)
        return False

    async def reload(self) -> None:
        """Read the task file again, because an operator may have replaced it."""
        if self._is_signed:
            self._adopt(await self._host.run_on_disk(self._read_installed))

    def retry_now(self) -> None:
        """Retry the activation now, because the owner may have answered or a newer task may have arrived."""
        self._retry_at = 0.0
        self._wake_event.set()

    def note_other_task(self, peer: Peer) -> None:
        """Compare tasks with a peer that has another task, newer or older, unless that was done recently."""
        now, is_in_sync = time.monotonic(), self._gossip.known_version(peer.id) == self.newest_epoch
        pause = _RETRY_SECONDS if is_in_sync else _MIN_REQUEST_SECONDS
        if self._is_signed and now - self._asked_at.get(peer.id, -pause) >= pause:
            self._asked_at[peer.id] = now
            self._asked_at.move_to_end(peer.id)
            if len(self._asked_at) > _MAX_REMEMBERED:
                self._asked_at.popitem(last=False)
            self._host.spawn(self._exchange_with(peer))

    async def receive(self, sender: str, payload: bytes) -> bytes:
        """Process a peer's task, and answer with this device's task.

        Raises:
            MessageRefused: if the peer's task is malformed, or not signed by the fleet.
        """
        return await self._gossip.answer(sender, _decode(payload))

    async def _try_activate(self) -> bool:
        """Try to activate a newer task, and return whether that succeeded."""
        task = self.newest_task
        if task is None or task.epoch <= self.epoch or time.monotonic() < self._retry_at:
            return False
        if (seconds_left := task.begins - time.time()) > 0:
            self.inactive_reason = f"the task begins in {seconds_left:.0f} s"
            return False
        try:
            await asyncio.get_running_loop().run_in_executor(None, lambda: self._activate_task(task.encoding))
        except TaskRefused as refusal:
            self._note_inactive(task, str(refusal))
        except Exception as error:  # noqa: BLE001 - the current task continues, whatever error a new one causes
            self._note_inactive(
                task, str(error) if isinstance(error, SottovoceError) else f"activation failed ({type(error).__name__})"
            )
            self._retry_at = time.monotonic() + _RETRY_SECONDS
        else:
            _log.info("task-taken-up epoch=%d before=%d", task.epoch, self.epoch)
            return True
        return False

    def _read_installed(self) -> SignedTask | None:
        """Return the task in the state directory, or None if it is missing or cannot be used."""
        try:
            return load_task(self._state, self._trust.identity.authority)
        except IdentityError as error:
            _log.error("task-not-read %s", error)
            return None

    def _store_task(self, task: SignedTask) -> None:
        try:
            store_task(self._state, task, self._trust.identity.authority)
        except IdentityError as error:  # peers will send the task again
            _log.error("task-not-kept %s", error)

    def _note_inactive(self, task: SignedTask, reason: str) -> None:
        if reason != self.inactive_reason:
            _log.warning(
                "task-not-taken-up epoch=%d: %s; this device continues with its current task", task.epoch, reason
            )
        self.inactive_reason = reason

    async def _inform_peers(self) -> None:
        """Send the newest task to all linked peers that are not known to have it."""
        known_version, newest = self._gossip.known_version, self.newest_epoch
        uninformed_peers = [peer for peer in self._host.linked_peers() if known_version(peer.id) < newest]
        await asyncio.gather(*(self._exchange_with(peer) for peer in uninformed_peers))

    async def _exchange_with(self, peer: Peer) -> None:
        if (failure := await self._gossip.exchange_with(peer)) is not None:
            _log.debug("task-not-told %s", failure)

    def _current_offer(self) -> VersionOffer[SignedTask]:
        return VersionOffer(self.newest_epoch, self.newest_task)

    async def _accept_task(self, peer: str, task: SignedTask) -> None:
        """Store a task from a peer if it is newer than this device's newest task."""
        if task.epoch <= self.newest_epoch or not self._is_signed:
            return
        authority = self._trust.identity.authority
        try:
            task.verify(authority)
        except IdentityError as error:
            raise MessageRefused("signature", f"{peer} sent an invalid task: {error}") from error
        await self._host.run_on_disk(lambda: self._store_task(task))
        self._adopt(task)

    def _adopt(self, task: SignedTask | None) -> None:
        if task is not None and task.epoch > self.newest_epoch:
            self.newest_task, self.inactive_reason = task, None
            self.retry_now()


def _encode(offer: VersionOffer[SignedTask]) -> bytes:
    return json.encode(_Payload(offer.version, offer.document), order="sorted")


def _decode(payload: bytes) -> VersionOffer[SignedTask]:
    """Decode a peer's message without verifying the task's signature.

    Raises:
        MessageRefused: if the message is malformed or too large.
    """
    if len(payload) > _MAX_PAYLOAD_BYTES:
        raise MessageRefused("size", f"a task offer of {len(payload)} bytes exceeds the limit of {_MAX_PAYLOAD_BYTES}")
    try:
        message = json.decode(payload, type=_Payload)
    except (DecodeError, ValidationError, UnicodeError, RecursionError) as error:
        raise MessageRefused("malformed", f"this version cannot decode this task: {error}") from error
    offer = VersionOffer(message.epoch, message.task)
    if _encode(offer) != payload:
        raise MessageRefused("malformed", "the task message is not in canonical form")
    return offer
