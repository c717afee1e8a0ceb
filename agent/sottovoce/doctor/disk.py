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
_MIN_FREE_BYTES = 8 * _MIB
_BYTES_PER_DAY = 64 * _MIB  # maximum that a ledger writes in a day, unless ledger.bytes_per_day is different
_SLOW_SECONDS = 1.0
_SPACE_REMEDY = "free up disk space, or move agent.state to a larger one"


def time_write(directory: Path) -> float:
    """Write a small unnamed file, wait until it is on the disk, and return the elapsed seconds."""
    start = time.monotonic()
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(4096))
        file.flush()
        os.fsync(file.fileno())
    return time.monotonic() - start


def disk(
    subject: Subject,
    statvfs: Callable[[Path], os.statvfs_result] = os.statvfs,
    write: Callable[[Path], float] = time_write,
) -> Iterator[Finding]:
    """Check that there is enough free space, and that a write succeeds quickly."""
    if subject.state is None or not subject.is_readable:
        return
    state, system = subject.state, statvfs(subject.state)
    if system.f_flag & os.ST_RDONLY:
        yield problem(
            f"{state}: the disk is mounted read-only, so charges cannot be stored",
            "mount it read-write; if the kernel made it read-only because of errors, check the disk (dmesg)",
            ExitCode.PRIVACY,
        )
        return
    free_bytes = system.f_bavail * system.f_frsize
    daily_bytes = _BYTES_PER_DAY if subject.config is None else subject.config.ledger.bytes_per_day
    summary = f"{state}: {free_bytes / _MIB:,.0f} MiB free"
    if free_bytes < _MIN_FREE_BYTES:
        yield problem(f"{summary}, but an agent requires {_MIN_FREE_BYTES // _MIB} MiB", _SPACE_REMEDY, ExitCode.DATA)
    elif system.f_files and not system.f_favail:
        yield problem(f"{state}: no more files can be created there (no inodes left)", _SPACE_REMEDY, ExitCode.DATA)
    elif free_bytes < daily_bytes:
        yield warning(f"{summary}; a ledger may write {daily_bytes / _MIB:,.0f} MiB in a day", _SPACE_REMEDY)
    else:
        yield ok(summary)
    try:
        seconds = write(state)
    except OSError as error:
        yield problem(
            f"{state}: cannot write a file there ({error.strerror})",
            "let the agent's user own the directory; if it already does, free up disk space, or replace the disk",
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
