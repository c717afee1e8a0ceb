"""Classify faults as transient or as needing a person.

After a transient fault, the agent retries with growing pauses, and then continues from its state on the disk, as after
a power cut. If a fault needs a person, an agent that was started by a service manager keeps running and reports the
fault; any other agent ends with the fault's exit code.

The service manager that started this process, if any, is notified in one datagram each; see sd_notify(3). Every user of
the machine can see these messages, so they contain only public text and nothing computed from records.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.errors import ClockError, DiskReadOnly, ExitCode, LedgerUnwritable, SottovoceError, VaultAway
from sottovoce.limits import describe_shortage
from sottovoce.ops import RateLimitedLog
from sottovoce.storage.durable import is_read_only, sqlite_code

_log = logging.getLogger(__name__)
_SEND_SECONDS = 1.0  # send timeout, in case the service manager is busy
READY, ALIVE, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"
_FIRST_PAUSE = 0.5  # seconds
STUCK_SECONDS = 5.0
"""Pause before a process exits because only a new process can recover from its fault, in seconds."""

_PERSON_SECONDS = 600.0  # time between checks for whether a person has fixed the fault
_DATA_KIND = "data"
_KIND_BY_SQLITE_CODE = {
    sqlite3.SQLITE_FULL: "disk",
    sqlite3.SQLITE_IOERR: "disk",
    sqlite3.SQLITE_BUSY: "disk",
    sqlite3.SQLITE_NOMEM: "memory",
}
_KIND_BY_ERRNO = {
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
    errno.EIO: "disk",
    errno.EROFS: "disk",
    errno.EMFILE: "descriptors",
    errno.ENFILE: "descriptors",
    errno.ENOMEM: "memory",
    errno.ENOBUFS: "memory",
}
_NO_THREAD_MESSAGE = "can't start new thread"  # Python's message, whether memory is short or the task limit is reached
_SQLITE_ACCESS_CODES = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_ADDRESS_ERRNOS = {errno.EADDRINUSE, errno.EADDRNOTAVAIL}

TRANSIENT_KINDS = ("disk", "descriptors", "memory", "address", "clock", "vault")
"""Kinds of transient faults."""

_KIND_BY_EXIT_CODE = {
    ExitCode.USAGE: "usage",
    ExitCode.CONFIGURATION: "configuration",
    ExitCode.DATA: _DATA_KIND,
    ExitCode.PRIVACY: "privacy",
    ExitCode.IDENTITY: "identity",
    ExitCode.PLUGIN: "plug-in",
}
MANUAL_KINDS = tuple(_KIND_BY_EXIT_CODE.values())
"""Kinds of faults that need a person.

All other faults are defects or network faults, after which a service manager restarts the agent.
"""
_sparse_log = RateLimitedLog(_log)


def is_supervised() -> bool:
    """Return whether a service manager started this process and expects notifications."""
    return bool(os.environ.get("NOTIFY_SOCKET"))


def notify_manager(*assignments: str) -> bool:
    """Notify the service manager at the address in NOTIFY_SOCKET, with one datagram.

    Args:
        assignments: assignments such as READY or `STATUS=…`, without newlines.

    Returns:
        True if there is a service manager and the notification was sent.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(_SEND_SECONDS)
        try:
            sender.sendto("\n".join(assignments).encode(), "\0" + address[1:] if address[0] == "@" else address)
        except OSError as error:
            _log.warning("service-manager-not-told %s: %s", address, error.strerror or error)
            return False
    return True


def ping_interval() -> float | None:
    """Return the seconds between ALIVE notifications, half the service manager's timeout; None without a timeout."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(microseconds) / 2e6 or None


async def notify_while_running(
    stopping: asyncio.Event, thread: Executor, status: str, will_exit: Callable[[], bool] = lambda: True
) -> None:
    """Send READY, then ALIVE while this loop runs and `thread` responds, and finally STOPPING.

    Args:
        stopping: event that is set when the process begins to stop.
        thread: executor whose thread must not get stuck. While it is stuck, ALIVE is not sent, and the service manager
            takes action.
        status: one line of text for `systemctl status`.
        will_exit: called at the end; returns whether the process will exit. A process that sends STOPPING but continues
            is killed.
    """
    if not notify_manager(READY, f"STATUS={status}"):
        return
    pause, loop = ping_interval(), asyncio.get_running_loop()
    while pause is not None and not stopping.is_set():
        await loop.run_in_executor(thread, _do_nothing)
        notify_manager(ALIVE)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), pause)
    await stopping.wait()
    if will_exit():
        notify_manager(STOPPING)


def _do_nothing() -> None:
    """Do nothing; running this job shows that the thread responds."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that prevents an agent from working.

    Attributes:
        kind: a member of KINDS or MANUAL_KINDS.
        reason: problem and remedy, for people who can read this device's log.
        needs_a_person: whether the fault persists until a person fixes it.
    """

    kind: str
    reason: str
    needs_a_person: bool

    @property
    def public_reason(self) -> str:
        """Return the reason, without any details of records or rows, for people who cannot read the device's log."""
        if self.kind == _DATA_KIND:
            return "the device's log and `sottovoce agent status` show the reason"
        return self.reason

    @classmethod
    def from_status(cls, fault: Mapping[str, Any]) -> "Fault":
        """Return the fault described in a status document."""
        return cls(fault["kind"], fault["reason"], fault["needs_a_person"])

    @property
    def current_action(self) -> str:
        """Return a verb phrase that describes what the agent does now, to follow the words "the agent"."""
        return "needs a person" if self.needs_a_person else "is waiting for a fault to clear"

    @property
    def summary(self) -> str:
        """Return the public part of the fault as one line."""
        return f"{self.current_action}: {self.kind}: {' '.join(self.public_reason.split())}"


def classify_fault(error: BaseException, *, has_worked: bool) -> Fault | None:
    """Return the fault that ended the agent.

    Args:
        error: error with which the agent ended.
        has_worked: see `transient_fault_kind`.

    Returns:
        the fault; None for a defect, a network fault, or a fault from which only a new process can recover.
    """
    if (kind := transient_fault_kind(error, has_worked=has_worked)) is not None:
        # numpy's message contains an array's shape, which might reveal the number of records.
        shortage = describe_shortage(MemoryError() if isinstance(error, MemoryError | RuntimeError) else error)
        return Fault(kind, shortage or str(error), needs_a_person=False)
    if isinstance(error, SottovoceError) and error.exit_code in _KIND_BY_EXIT_CODE:
        return Fault(_KIND_BY_EXIT_CODE[error.exit_code], str(error), needs_a_person=True)
    return None


def transient_fault_kind(error: BaseException, *, has_worked: bool) -> str | None:
    """Return the kind of transient fault that caused this error; None if the fault is not transient.

    Args:
        error: the error that ended the agent.
        has_worked: whether permissions and addresses are assumed to be correct, either because the agent has already
            worked with them or because its disk is read-only. If so, errors about them count as transient.
    """
    for cause in _causes(error):
        if (kind := _transient_kind(cause, has_worked=has_worked)) is not None:
            return kind
    return None


def unrecoverable_disk_error(directory: Path) -> DiskReadOnly | None:
    """Return the error for a supervised process that cannot recover because its disk is read-only; otherwise None.

    A service manager gives each process a private view of the disks (ReadWritePaths=). That view remains read-only even
    after the disk has been remounted read-write, so only a new process can recover.
    """
    if not (is_supervised() and is_read_only(directory)):
        return None
    return DiskReadOnly(f"{directory}: the disk is mounted read-only; fix the cause and remount it read-write")


@contextmanager
def report_faults() -> Iterator[None]:
    """Report a fault that ends the process to the service manager, if its kind is known."""
    try:
        yield
    except SottovoceError as error:
        if (fault := classify_fault(error, has_worked=False)) is not None:
            notify_manager(f"STATUS={fault.summary}")
        raise


class FaultBackoff:
    """Backoff after faults: each pause is twice as long as the last, and each kind is logged at most once a minute.

    Args:
        longest_pause: longest pause after a transient fault, in seconds.
    """

    def __init__(self, longest_pause: float) -> None:
        self._longest_pause = max(_FIRST_PAUSE, longest_pause)
        self._pause = 0.0
        self._sparse_log = RateLimitedLog(_log)

    def reset(self) -> None:
        """Return to the shortest pause, because the fault has passed."""
        self._pause = 0.0

    def next_delay(self, fault: Fault) -> float:
        """Log a fault, and return the pause before the next attempt, in seconds."""
        kind, reason = fault.kind, fault.reason
        if fault.needs_a_person:
            self._sparse_log.log(logging.ERROR, kind, "needs-a-person kind=%s %s", kind, reason)
            return _PERSON_SECONDS
        self._pause = min(2 * self._pause, self._longest_pause) or _FIRST_PAUSE
        text = "fault-passes kind=%s the agent retries until the fault clears: %s"
        self._sparse_log.log(logging.WARNING, kind, text, kind, reason)
        return self._pause


def _transient_kind(error: BaseException, *, has_worked: bool) -> str | None:
    match error:
        case ClockError():
            return "clock"
        case VaultAway():
            return "vault"
        case LedgerUnwritable():
            return "disk"
        case MemoryError():
            return "memory"
        case RuntimeError() if str(error) == _NO_THREAD_MESSAGE:
            return "memory"
        case sqlite3.Error():
            code = sqlite_code(error)
            return "disk" if has_worked and code in _SQLITE_ACCESS_CODES else _KIND_BY_SQLITE_CODE.get(code)
        case OSError():
            if error.errno in _ADDRESS_ERRNOS:
                return "address" if has_worked else None
            return _KIND_BY_ERRNO.get(error.errno or 0)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, followed by its chain of causes."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that asyncio could not deliver to any caller; see asyncio.loop.set_exception_handler.

    If the system refuses a resource that is requested again later, such as a file descriptor or memory, at most one
    line a minute is logged. Any other error is a defect and is logged with its traceback, at most once a minute for
    each kind.
    """
    error, message = context.get("exception"), context["message"]
    if isinstance(error, OSError | MemoryError):
        cause = error.errno if isinstance(error, OSError) else "memory"
        _sparse_log.log(logging.WARNING, cause, "event-loop-fault %s: %s", message, str(error) or "no memory")
    elif _sparse_log.should_log((message, type(error))):
        loop.default_exception_handler(context)
