"""Memory cgroups, for tests of a process within the limit of its unit."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_ROOT = Path("/sys/fs/cgroup")
_V1, _V2 = _ROOT / "memory", _ROOT / "cgroup.controllers"


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A cgroup with a limit.

    Attributes:
        directory: directory of the cgroup.
        peak_file: name of the file with the largest use so far.
    """

    directory: Path
    peak_file: str

    @property
    def words(self) -> tuple[str, ...]:
        """The words before a command that start it in the cgroup."""
        return "sh", "-c", f'echo $$ > {self.directory}/cgroup.procs && exec "$@"', "sh"

    def peak_mib(self) -> float:
        """Return the largest use so far."""
        return int((self.directory / self.peak_file).read_text()) / 2**20


@contextmanager
def memory_group(mib: int) -> Iterator[MemoryGroup]:
    """Make a cgroup with a memory limit for the duration of the `with` block; skip the test if that is not possible."""
    version_2 = _V2.exists() and "memory" in _V2.read_text().split()
    directory = (_ROOT if version_2 else _V1) / f"sottovoce-test-{os.getpid()}"
    limit, peak = ("memory.max", "memory.peak") if version_2 else ("memory.limit_in_bytes", "memory.max_usage_in_bytes")
    try:
        directory.mkdir()
        (directory / limit).write_text(str(mib * 2**20))
    except OSError as error:
        pytest.skip(f"this user cannot make a memory cgroup: {error}")
    try:
        yield MemoryGroup(directory, peak)
    finally:
        directory.rmdir()
