"""A learning task that the fleet has signed, with its start and end times, and its file in a directory."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from msgspec import DecodeError, Meta, Struct, ValidationError, json, structs

from sottovoce.errors import IdentityError
from sottovoce.fleet.authority import Authority, RetiredKeyError, check_fleet_signature
from sottovoce.fleet.files import exclusive, replace
from sottovoce.fleet.fleet_keys import MAX_CHANGES, KeyChange
from sottovoce.fleet.framing import frame_fields
from sottovoce.task import MAX_SIGNED_TASK_BYTES

TASK_FILE = "task"
_MAX_DEPTH = 5  # nesting levels: tables that contain tables of lists of lists of numbers
_DOMAIN = b"sottovoce/fleet-task/v1"
_Time = Annotated[int, Meta(ge=0, le=2**53)]


class SignedTask(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A learning task with the fleet's signature.

    Attributes:
        fleet: the fleet's name.
        epoch: number of the task, from 1; the task with the highest epoch is in force.
        issued: Unix time in seconds by the signer's clock; for information only.
        begins: Unix time in seconds at which devices switch to this task; a time in the past means immediately.
        ends: Unix time in seconds after which devices release nothing more for this task; None for no end.
        purpose: what the result is for; a device's owner may refuse the task because of it.
        period: budget period that this task opens, if budgets renew; 0 for the first. See
            sottovoce.privacy.ledger.limits.
        tables: the `[task]`, `[data]`, `[learner]` and `[privacy]` tables of a configuration, without device-specific
            settings.
        keys: changes of the fleet's keys; empty if there are none.
        signature: the fleet key's signature over all of the above: ECDSA P-256 with SHA-256, DER, as hexadecimal
            digits.
    """

    fleet: Annotated[str, Meta(min_length=1, max_length=40)]
    epoch: Annotated[int, Meta(ge=1, le=2**53)]
    issued: _Time
    begins: _Time = 0
    ends: _Time | None = None
    purpose: Annotated[str, Meta(max_length=200)] = ""
    period: Annotated[int, Meta(ge=0, le=2**53)] = 0
    tables: dict[str, dict[str, Any]]
    keys: tuple[KeyChange, ...] = ()
    signature: Annotated[str, Meta(pattern="^([0-9a-f]{2}){0,80}$")] = ""

    def __post_init__(self) -> None:
        """Check that the tables are not nested more deeply than in a configuration."""
        _check_depth(self.tables, _MAX_DEPTH)

    @property
    def encoding(self) -> bytes:
        """The canonical encoding: JSON with sorted names and no spaces; omits `period` and `keys` at their defaults."""
        defaults = {"period": 0, "keys": ()}
        fields = {key: value for key, value in structs.asdict(self).items() if defaults.get(key) != value}
        return json.encode(fields, order="sorted")

    def sign(self, sign: Callable[[bytes], bytes]) -> "SignedTask":
        """Return a copy of the task that is signed with the fleet's key."""
        return structs.replace(self, signature=sign(self._signed_bytes()).hex())

    def verify(self, authority: Authority) -> None:
        """Check that the authority's fleet signed the task.

        Raises:
            IdentityError: if the task belongs to another fleet, or this fleet did not sign it.
        """
        check_fleet_signature(
            authority,
            self.fleet,
            self._signed_bytes(),
            bytes.fromhex(self.signature),
            "the task",
            f"epoch {self.epoch}",
            self.keys,
        )

    def _signed_bytes(self) -> bytes:
        return frame_fields(_DOMAIN, (structs.replace(self, signature="").encoding,))


def _check_depth(value: Any, levels: int) -> None:
    """Raise ValueError if a value is nested more than `levels` levels deep."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if levels == 0 and children:
        raise ValueError("the task's tables are nested too deeply")
    for child in children:
        _check_depth(child, levels - 1)


def read_task(raw: bytes, source: object) -> SignedTask:
    """Decode a signed task from an untrusted source, without verifying its signature.

    Args:
        raw: the encoded task.
        source: what to call the task in error messages.

    Raises:
        IdentityError: if the task is malformed, too large, or not in canonical form.
    """
    if len(raw) > MAX_SIGNED_TASK_BYTES:
        raise IdentityError(
            f"{source} is not a signed fleet task: it has {len(raw)} bytes, and the limit is {MAX_SIGNED_TASK_BYTES}"
        )
    try:
        task = json.decode(raw, type=SignedTask)
    except (DecodeError, ValidationError, UnicodeError, RecursionError) as error:
        raise IdentityError(f"{source} is not a task that this version can read: {error}") from error
    if task.encoding != raw or len(task.keys) > MAX_CHANGES:
        raise IdentityError(f"{source} is not a signed fleet task: the encoding is not canonical")
    return task


def load_task(directory: Path, authority: Authority) -> SignedTask | None:
    """Return the task stored in a device's or the fleet's directory; None if it is missing or signed by a retired key.

    Raises:
        IdentityError: if the task cannot be read, or does not belong to this fleet.
    """
    path = directory / TASK_FILE
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IdentityError(f"cannot read {path}: {error.strerror}; fix the file's owner or mode") from error
    task = read_task(raw, path)
    try:
        task.verify(authority)
    except RetiredKeyError:
        return None
    return task


def store_task(directory: Path, task: SignedTask, authority: Authority) -> bool:
    """Store a verified task in a directory, unless it contains this task or a newer one; return whether it was stored.

    Raises:
        IdentityError: if the task cannot be written, the existing file is corrupt, or it is another task of the same
            epoch.
    """
    with exclusive(directory):
        stored_task = load_task(directory, authority)
        if stored_task is not None and stored_task.epoch >= task.epoch:
            if stored_task.epoch == task.epoch and _unsigned(stored_task) != _unsigned(task):
                raise IdentityError(
                    f"{directory / TASK_FILE} is another task of epoch {task.epoch}: two copies of the fleet's "
                    "directory have signed tasks. Delete one copy, and sign the task again in the other until its "
                    "epoch is higher"
                )
            return False
        replace(directory / TASK_FILE, task.encoding)
    return True


def _unsigned(task: SignedTask) -> SignedTask:
    """Return a task without what changes when it is signed again with a new key."""
    return structs.replace(task, keys=(), signature="")
