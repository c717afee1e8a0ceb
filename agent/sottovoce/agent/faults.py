"""What goes away by itself, and what needs a person: the one table of it.

A fault that passes is waited for, with growing pauses; with what is on the disk the device then goes on, as after a
power cut. Everything else ends the agent with its exit code, and a service manager leaves it ended.
"""

import errno
import logging
import sqlite3
from collections.abc import Iterator

from sottovoce.durable import sqlite_code
from sottovoce.errors import ClockError, LedgerUnwritable, VaultAway
from sottovoce.observe import Seldom

_log = logging.getLogger(__name__)
_FIRST_PAUSE = 0.5  # seconds

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
_LATER_ONLY = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
_ADDRESS = {errno.EADDRINUSE, errno.EADDRNOTAVAIL}

KINDS = ("disk", "descriptors", "memory", "address", "clock", "vault")
"""Every fault that passes by itself."""


def passing(error: BaseException, *, worked: bool) -> str | None:
    """The kind of fault behind this error, if it passes by itself; None when it needs a person.

    Args:
        error: what ended the agent.
        worked: the agent had been at work before. Permissions and addresses with which it did were right, and will be
            again; those with which it never worked are wrong.
    """
    for cause in _chain(error):
        if (kind := _kind(cause, worked=worked)) is not None:
            return kind
    return None


class Patience:
    """With faults that pass: says which it is, once a minute at most, and how long to wait, longer each time.

    Args:
        longest: pause, seconds.
    """

    def __init__(self, longest: float) -> None:
        self._longest = max(_FIRST_PAUSE, longest)
        self._pause = 0.0
        self._seldom = Seldom(_log)

    def renewed(self) -> None:
        """What there was is over: the next pause is a first one."""
        self._pause = 0.0

    def pause(self, kind: str, error: BaseException) -> float:
        """Seconds to wait for a fault of this kind."""
        self._pause = min(2 * self._pause, self._longest) or _FIRST_PAUSE
        said = "fault-passes kind=%s tries again until it is over: %s"
        self._seldom.say(logging.WARNING, kind, said, kind, error)
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
        case sqlite3.Error():
            code = sqlite_code(error)
            return "disk" if worked and code in _LATER_ONLY else _OF_SQLITE.get(code)
        case OSError():
            if error.errno in _ADDRESS:
                return "address" if worked else None
            return _OF_THE_SYSTEM.get(error.errno or 0)
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
