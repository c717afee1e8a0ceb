"""Check of the free memory on the machine and in the process's control group."""

from collections.abc import Iterator
from pathlib import Path

from sottovoce.doctor.finding import Finding, ok, problem, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode

_MIB = 2**20
_MIN_BYTES = 96 * _MIB  # an idle agent with a linear model uses 80 MiB
_COMFORTABLE_BYTES = 160 * _MIB


def memory(subject: Subject, root: Path = Path("/")) -> Iterator[Finding]:
    """Check that there is enough memory for an agent, or that the running agent leaves some free.

    Args:
        subject: the device.
        root: directory that contains /proc and /sys.
    """
    amounts = {"of the machine": available_memory(root), "of this control group": allowed_memory(root)}
    known_amounts = {source: amount for source, amount in amounts.items() if amount is not None}
    if not known_amounts:
        yield ok("the amount is unknown on this system")
        return
    source, amount = min(known_amounts.items(), key=lambda item: item[1])
    summary = f"{amount / _MIB:,.0f} MiB {source} left"
    if subject.status is not None:
        summary += f", in addition to an agent with {subject.status['resources']['rss_mib']:.0f} MiB"
    if subject.status is None and amount < _MIN_BYTES:
        yield problem(
            f"{summary}; an agent requires {_MIN_BYTES // _MIB} MiB",
            "end other programs, raise the limit (systemd: MemoryMax=), or use a larger machine",
            ExitCode.CONFIGURATION,
        )
    elif amount < (_COMFORTABLE_BYTES if subject.status is None else _MIB * 16):
        yield warning(summary, "end other programs or raise the limit: an agent that runs out of memory is killed")
    else:
        yield ok(summary)


def available_memory(root: Path) -> int | None:
    """Return the kernel's estimate of the memory available to programs, in bytes; None if unknown."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kib = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if kib is None else int(kib) * 1024


def allowed_memory(root: Path) -> int | None:
    """Return the memory that this process's tightest control group still allows, in bytes; None without a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    amounts = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        base = root / "sys/fs/cgroup" / controllers
        limit, used = ("memory.max", "memory.current") if not controllers else _VERSION_1_FILES
        group_directory = base / group.strip("/")
        for directory in (group_directory, *group_directory.parents):
            amounts.append(_remaining_bytes(directory / limit, directory / used))
            if directory == base:
                break
    return min((amount for amount in amounts if amount is not None), default=None)


_VERSION_1_FILES = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def _remaining_bytes(limit: Path, used: Path) -> int | None:
    try:
        text = limit.read_text().strip()
        return max(0, int(text) - int(used.read_text())) if text.isdecimal() else None
    except (OSError, ValueError):
        return None
