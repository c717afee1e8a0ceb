"""Temporarily limit a process's descriptors or memory, and measure its memory and processor use."""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def limited(pid: int, kind: int, soft: int) -> Iterator[None]:
    """Limit a resource of a process inside the `with`; the process keeps what it already has."""
    before = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (soft, before[1]))
    try:
        yield
    finally:
        if Path(f"/proc/{pid}").exists():
            resource.prlimit(pid, kind, before)


@contextmanager
def without_memory(pid: int, extra: int = 0) -> Iterator[None]:
    """Keep a process from mapping more than `extra` further bytes inside the `with`.

    Its data are limited, too, since the C library reserves an address space of 64 MiB for a thread's data in advance.
    """
    address_space, data = (_mapped(pid, name) + extra for name in ("VmSize", "VmData"))
    with limited(pid, resource.RLIMIT_AS, address_space), limited(pid, resource.RLIMIT_DATA, data):
        yield


def _mapped(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


def processor_share(pid: int, seconds: float) -> float:
    """Return the share of one processor that a process uses over this many seconds."""
    before, began = _processor_seconds(pid), time.monotonic()
    time.sleep(seconds)  # the rate is measured over this time
    return (_processor_seconds(pid) - before) / (time.monotonic() - began)


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
