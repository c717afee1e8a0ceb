"""The operating system's measurements of this process, and memory that the process returns to it.

Memory use depends on the loaded records.
"""

import ctypes
import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

_PAGE_BYTES = resource.getpagesize()
_BLOCK_BYTES = 512  # unit of getrusage(2) on every file system
_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_ARENA_MAX = -8  # M_ARENA_MAX of mallopt(3)


@dataclass(frozen=True, slots=True)
class ProcessMeasurements:
    """Measurements of this process and its file system at one moment.

    Attributes:
        resident_bytes: resident memory of this process.
        memory_limit_bytes: lowest memory limit of the process's control groups and the machine; None if unknown.
        cpu_seconds: processor time that this process has used.
        free_bytes: free space for users other than root on the file system of a directory.
    """

    resident_bytes: int
    memory_limit_bytes: int | None
    cpu_seconds: float
    free_bytes: int


def measure_machine(directory: Path) -> ProcessMeasurements:
    """Measure this process and the file system of `directory`. This call may block on disk I/O."""
    disk = os.statvfs(directory)
    return ProcessMeasurements(
        resident_bytes(), memory_limit_bytes(), time.process_time(), disk.f_bavail * disk.f_frsize
    )


def resident_bytes() -> int:
    """Return the resident set size from /proc; on systems without /proc, return the peak so far."""
    statm = _PROC / "self" / "statm"
    if statm.exists():
        return int(statm.read_text().split()[1]) * _PAGE_BYTES
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def written_bytes() -> int:
    """Return how many bytes this process has written to disk since it started; 0 if the system does not count them."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_oublock * _BLOCK_BYTES


def memory_limit_bytes(proc: Path = _PROC, groups: Path = _CGROUPS) -> int | None:
    """Return the lowest memory limit of the machine and this process's control groups (v2); None without /proc."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
        total = int((proc / "meminfo").read_text().split()[1]) * 1024
    except OSError:
        return None
    group_path = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    limits = [total]
    for group in (groups / group_path, *(groups / group_path).parents):
        if not group.is_relative_to(groups):
            break
        try:
            limit = (group / "memory.max").read_text().strip()
        except OSError:
            continue
        if limit.isdecimal():  # "max" means no limit
            limits.append(int(limit))
    return min(limits)


def use_single_arena() -> None:
    """Make all threads share one heap from now on, because this program's threads rarely allocate concurrently."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # glibc only
        library.mallopt(_ARENA_MAX, 1)


def release_free_memory() -> None:
    """Return memory that was freed during startup to the operating system."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):  # glibc only
        library.malloc_trim(0)
