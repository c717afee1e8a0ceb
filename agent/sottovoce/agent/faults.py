"""Classification of faults: transient ones, and ones that need a person.

The agent waits for a transient fault to pass, with growing pauses; the device then continues from its disk, as after a
power cut. If a fault needs a person, an agent that a service manager has started reports it to
callers; any other agent ends with the fault's exit code.
"""

import errno
import logging
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.agent.notify import is_supervised, notify_manager
from sottovoce.durable import read_only, sqlite_code
from sottovoce.errors import ClockError, DiskReadOnly, ExitCode, LedgerUnwritable, SottovoceError, VaultAway
from sottovoce.observe import RateLimitedLog

_log = logging.getLogger(__name__)
_FIRST_PAUSE = 0.5  # seconds
STUCK_SECONDS = 5.0
"""Pause before the end of a process whose fault only another process can get over."""

_PERSON_SECONDS = 600.0  # between two checks whether a person has fixed the fault
_RECORDS = "data"
_NO_MEMORY = "there is not enough memory; see what else the machine or its limits leave"
"""Replaces numpy's message, which names the shape of an array: that may be the number of records."""

_OF_SQLITE = {
    sqlite3.SQLITE_FULL: "disk",
    sqlite3.SQLITE_IOERR: "disk",
    sqlite3.SQLITE_BUSY: "disk",
    sqlite3.SQLITE_NOMEM: "memory",
}
_OF_THE_SYSTEM = {
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
    errno.EIO: "disk",
    errno.EROFS: "disk",
    errno.EMFILE: "descriptors",
    errno.ENFILE: "descriptors",
    errno.ENOMEM: "memory",
    errno.ENOBUFS: "memory",
}
_NO_THREAD = "can't start new thread"  # Python's only message, whether memory or a limit on tasks is the cause
_LATER_ONLY = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_ADDRESS = {errno.EADDRINUSE, errno.EADDRNOTAVAIL}

KINDS = ("disk", "descriptors", "memory", "address", "clock", "vault")
"""Every transient fault."""

_FOR_A_PERSON = {
    ExitCode.USAGE: "usage",
    ExitCode.CONFIGURATION: "configuration",
    ExitCode.DATA: _RECORDS,
    ExitCode.PRIVACY: "privacy",
    ExitCode.IDENTITY: "identity",
    ExitCode.PLUGIN: "plug-in",
}
FOR_A_PERSON = tuple(_FOR_A_PERSON.values())
"""Every fault that needs a person; others are defects or network faults, and a service manager restarts the agent."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Reason why an agent is not at work.

    Attributes:
        kind: a member of KINDS or FOR_A_PERSON.
        reason: problem and remedy, for readers of this device's log.
        needs_a_person: whether the fault persists until a person fixes it.
    """

    kind: str
    reason: str
    needs_a_person: bool

    @property
    def public_reason(self) -> str:
        """Return the reason without details of records or rows, for people who cannot read the device's log."""
        return "its log and `sottovoce agent status` say why" if self.kind == _RECORDS else self.reason

    @classmethod
    def of_status(cls, fault: Mapping[str, Any]) -> "Fault":
        """Return the fault that a status describes."""
        return cls(fault["kind"], fault["reason"], fault["needs_a_person"])

    @property
    def current_action(self) -> str:
        """Return the agent's action in the meantime, in words."""
        return "needs a person" if self.needs_a_person else "waits for a fault to pass"

    @property
    def summary(self) -> str:
        """Return the public part of the fault, in one line."""
        return f"{self.current_action}: {self.kind}: {' '.join(self.public_reason.split())}"


def fault_of(error: BaseException, *, worked: bool) -> Fault | None:
    """Return the fault that ended the agent; None for a defect, or for a fault that only a new process survives.

    Args:
        error: error with which the agent ended.
        worked: see `transient_fault_kind`.
    """
    if (kind := transient_fault_kind(error, worked=worked)) is not None:
        return Fault(
            kind, _NO_MEMORY if isinstance(error, MemoryError | RuntimeError) else str(error), needs_a_person=False
        )
    if isinstance(error, SottovoceError) and error.exit_code in _FOR_A_PERSON:
        return Fault(_FOR_A_PERSON[error.exit_code], str(error), needs_a_person=True)
    return None


def transient_fault_kind(error: BaseException, *, worked: bool) -> str | None:
    """Return the kind of a transient fault behind this error; None when the fault needs a person.

    Args:
        error: the error that ended the agent.
        worked: whether the agent had been at work before. Permissions and addresses with which it worked count
            as correct, as do all permissions and addresses while `read_only`; any others count as wrong.
    """
    for cause in _chain(error):
        if (kind := _kind(cause, worked=worked)) is not None:
            return kind
    return None


def unrecoverable_disk_error(directory: Path) -> DiskReadOnly | None:
    """Return the error with which to end a process that cannot recover: its disk was read-only at its start.

    A service manager gives a process a view of the disks of its own (ReadWritePaths=), which stays read-only when the
    disk is mounted for writing again.
    """
    if not (is_supervised() and read_only(directory)):
        return None
    return DiskReadOnly(f"{directory}: its disk is mounted read-only: see why, and mount it for writing")


@contextmanager
def report_faults() -> Iterator[None]:
    """Report a fault that ends the process, and that needs a person, to the service manager."""
    try:
        yield
    except SottovoceError as error:
        if (fault := fault_of(error, worked=False)) is not None:
            notify_manager(f"STATUS={fault.summary}")
        raise


class Patience:
    """Pauses after faults: each fault is logged, once a minute at most, and each pause is longer than the last.

    Args:
        longest: longest pause for a transient fault, seconds.
    """

    def __init__(self, longest: float) -> None:
        self._longest = max(_FIRST_PAUSE, longest)
        self._pause = 0.0
        self._sparse_log = RateLimitedLog(_log)

    def reset(self) -> None:
        """Start again with the shortest pause, after the fault has passed."""
        self._pause = 0.0

    def pause(self, fault: Fault) -> float:
        """Log a fault, and return the seconds to wait for it."""
        kind, reason = fault.kind, fault.reason
        if fault.needs_a_person:
            self._sparse_log.say(logging.ERROR, kind, "needs-a-person kind=%s %s", kind, reason)
            return _PERSON_SECONDS
        self._pause = min(2 * self._pause, self._longest) or _FIRST_PAUSE
        said = "fault-passes kind=%s the agent tries again until the fault has passed: %s"
        self._sparse_log.say(logging.WARNING, kind, said, kind, reason)
        return self._pause


def _kind(error: BaseException, *, worked: bool) -> str | None:
    match error:
        case ClockError():
            return "clock"
        case VaultAway():
            return "vault"
        case LedgerUnwritable():
            return "disk"
        case MemoryError():
            return "memory"
        case RuntimeError() if str(error) == _NO_THREAD:
            return "memory"
        case sqlite3.Error():
            code = sqlite_code(error)
            return "disk" if worked and code in _LATER_ONLY else _OF_SQLITE.get(code)
        case OSError():
            if error.errno in _ADDRESS:
                return "address" if worked else None
            return _OF_THE_SYSTEM.get(error.errno or 0)
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
