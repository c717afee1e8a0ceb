"""Facts of the operating system about a process."""

from pathlib import Path

import pytest
from sottovoce.ops.machine import measure_machine, memory_limit_bytes


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal:         500000 kB\nMemFree:  1 kB\n")
    (proc / "self" / "cgroup").write_text("12:cpu:/old\n0::/system.slice/agent.service\n")
    return proc


@pytest.mark.parametrize(
    "limits, least",
    [
        ({}, 500_000 * 1024),
        ({"system.slice/agent.service": "max"}, 500_000 * 1024),
        ({"system.slice/agent.service": "max", "system.slice": "300000000"}, 300_000_000),
        ({"system.slice/agent.service": "200000000", "system.slice": "300000000"}, 200_000_000),
        ({".": "100000000"}, 100_000_000),
        ({"../outside": "1"}, 500_000 * 1024),
    ],
)
def test_the_lowest_limit_counts(proc: Path, tmp_path: Path, limits: dict[str, str], least: int) -> None:
    groups = tmp_path / "groups"
    for group, limit in limits.items():
        (groups / group).mkdir(parents=True, exist_ok=True)
        (groups / group / "memory.max").write_text(f"{limit}\n")
    assert memory_limit_bytes(proc, groups) == least


def test_without_proc_the_limit_is_unknown(tmp_path: Path) -> None:
    assert memory_limit_bytes(tmp_path / "none", tmp_path) is None


def test_this_process_has_memory_and_processor_time(tmp_path: Path) -> None:
    observed = measure_machine(tmp_path)
    assert 2**22 < observed.resident_bytes < 2**34
    assert observed.cpu_seconds > 0
    assert observed.free_bytes > 0
