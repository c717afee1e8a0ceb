"""Check of the disk under a state directory, with an unnamed temporary file, which is the doctor's only write."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sottovoce.doctor.finding import Finding, ok, problem, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode

_MIB = 2**20
_NEEDED = 8 * _MIB
_A_DAY = 64 * _MIB  # most that a ledger writes in a day, unless ledger.bytes_per_day differs
_SLOW_SECONDS = 1.0
_ROOM = "make room on it, or move agent.state to a larger disk"


def time_write(directory: Path) -> float:
    """Write a small nameless file and wait for the disk; return the seconds that this took."""
    began = time.monotonic()
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(4096))
        file.flush()
        os.fsync(file.fileno())
    return time.monotonic() - began


def disk(
    subject: Subject,
    look: Callable[[Path], os.statvfs_result] = os.statvfs,
    write: Callable[[Path], float] = time_write,
) -> Iterator[Finding]:
    """Check that there is room, and that a write succeeds."""
    if subject.state is None or not subject.is_readable:
        return
    state, system = subject.state, look(subject.state)
    if system.f_flag & os.ST_RDONLY:
        yield problem(
            f"{state}: its disk is mounted read-only, so that no charge can be kept",
            "mount it read-write; if the kernel made it read-only, it has seen errors: check the disk (dmesg)",
            ExitCode.PRIVACY,
        )
        return
    free = system.f_bavail * system.f_frsize
    plenty = _A_DAY if subject.config is None else subject.config.ledger.bytes_per_day
    words = f"{state}: {free / _MIB:,.0f} MiB free"
    if free < _NEEDED:
        yield problem(f"{words}, and an agent needs {_NEEDED // _MIB}", _ROOM, ExitCode.DATA)
    elif system.f_files and not system.f_favail:
        yield problem(f"{state}: no more files can be made there (no inodes left)", _ROOM, ExitCode.DATA)
    elif free < plenty:
        yield warning(f"{words}; a ledger may write {plenty / _MIB:,.0f} MiB in a day", _ROOM)
    else:
        yield ok(words)
    try:
        seconds = write(state)
    except OSError as error:
        yield problem(
            f"{state}: a file cannot be written there ({error.strerror})",
            "let the agent's user own the directory; if it does, make room on the disk or replace it",
            ExitCode.DATA,
        )
        return
    if seconds > _SLOW_SECONDS:
        yield warning(
            f"{state}: a small write took {seconds:.1f} s to reach the disk, and every release waits for two",
            "a worn or slow memory card: replace it, or move agent.state to another disk",
        )
    else:
        yield ok(f"{state}: writes reach the disk")
