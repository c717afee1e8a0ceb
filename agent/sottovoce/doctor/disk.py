"""Check of the disk that holds a state directory, with an unnamed temporary file as the doctor's only write."""

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
_A_DAY = 64 * _MIB  # maximum that a ledger writes in a day, unless ledger.bytes_per_day is different
_SLOW_SECONDS = 1.0
_ROOM = "free up disk space, or move agent.state to a larger one"


def time_write(directory: Path) -> float:
    """Write a small unnamed file, wait until it is on the disk, and return the elapsed seconds."""
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
    """Check that there is enough free space, and that a write succeeds quickly."""
    if subject.state is None or not subject.is_readable:
        return
    state, system = subject.state, look(subject.state)
    if system.f_flag & os.ST_RDONLY:
        yield problem(
            f"{state}: the disk is mounted read-only, so charges cannot be stored",
            "mount it read-write; if the kernel made it read-only because of errors, check the disk (dmesg)",
            ExitCode.PRIVACY,
        )
        return
    free = system.f_bavail * system.f_frsize
    plenty = _A_DAY if subject.config is None else subject.config.ledger.bytes_per_day
    words = f"{state}: {free / _MIB:,.0f} MiB free"
    if free < _NEEDED:
        yield problem(f"{words}, but an agent requires {_NEEDED // _MIB} MiB", _ROOM, ExitCode.DATA)
    elif system.f_files and not system.f_favail:
        yield problem(f"{state}: no more files can be created there (no inodes left)", _ROOM, ExitCode.DATA)
    elif free < plenty:
        yield warning(f"{words}; a ledger may write {plenty / _MIB:,.0f} MiB in a day", _ROOM)
    else:
        yield ok(words)
    try:
        seconds = write(state)
    except OSError as error:
        yield problem(
            f"{state}: cannot write a file there ({error.strerror})",
            "let the agent's user own the directory; if it already does, free up disk space or replace it",
            ExitCode.DATA,
        )
        return
    if seconds > _SLOW_SECONDS:
        yield warning(
            f"{state}: a small write took {seconds:.1f} s to reach the disk, and every release waits for two writes",
            "the memory card may be worn or slow: replace it, or move agent.state to another disk",
        )
    else:
        yield ok(f"{state}: writes reach the disk")
