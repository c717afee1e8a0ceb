"""Disk: full, worn, read-only, or owned by another user."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from sottovoce.doctor import Level, Subject
from sottovoce.doctor.machine import disk, time_write
from sottovoce.errors import ExitCode

from tests.support.patients import worst_finding

_BLOCK = 4096


def _disk(free_mib: float = 1000, *, files: int = 100, flags: int = 0) -> Callable[[Path], os.statvfs_result]:
    blocks = int(free_mib * 2**20 / _BLOCK)
    return lambda _: os.statvfs_result((_BLOCK, _BLOCK, 2 * blocks, blocks, blocks, 1000, files, files, flags, 255))


@pytest.mark.parametrize(
    "look, level, code, words",
    [
        (_disk(), Level.OK, 0, "1,000 MiB free"),
        (_disk(20), Level.WARNING, 0, "in a day"),
        (_disk(2), Level.PROBLEM, ExitCode.DATA, "2 MiB free"),
        (_disk(files=0), Level.PROBLEM, ExitCode.DATA, "inodes"),
        (_disk(flags=os.ST_RDONLY), Level.PROBLEM, ExitCode.PRIVACY, "read-only"),
    ],
)
def test_states_of_the_disk(
    tmp_path: Path, look: Callable[[Path], os.statvfs_result], level: Level, code: int, words: str
) -> None:
    finding = worst_finding(disk(Subject(state=tmp_path), look))
    assert (finding.level, finding.code) == (level, code)
    assert level is Level.OK or words in finding.what


def test_a_failing_write_and_a_slow_one(tmp_path: Path) -> None:
    def full(_: Path) -> float:
        raise OSError(errno.ENOSPC, "No space left on device")

    finding = worst_finding(disk(Subject(state=tmp_path), _disk(), full))
    assert (finding.level, finding.code) == (Level.PROBLEM, ExitCode.DATA)
    assert worst_finding(disk(Subject(state=tmp_path), _disk(), lambda _: 3.0)).level is Level.WARNING


def test_the_test_file_is_removed_at_once(tmp_path: Path) -> None:
    assert time_write(tmp_path) >= 0
    assert list(tmp_path.iterdir()) == []
