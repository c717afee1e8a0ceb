"""Processes that are left without descriptors or memory for a while, and what that makes them do."""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def limited(pid: int, kind: int, soft: int) -> Iterator[None]:
    """Meanwhile a process may have so much of something; what it has already stays."""
    before = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (soft, before[1]))
    try:
        yield
    finally:
        if Path(f"/proc/{pid}").exists():
            resource.prlimit(pid, kind, before)


def address_space(pid: int) -> int:
    """Bytes of the address space that a process has mapped."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmSize:")]
    return int(line.split()[1]) * 1024


def processor_share(pid: int, seconds: float) -> float:
    """The share of one processor that a process takes over this many seconds."""
    before, began = _processor_seconds(pid), time.monotonic()
    time.sleep(seconds)  # a rate is measured over a time
    return (_processor_seconds(pid) - before) / (time.monotonic() - began)


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
