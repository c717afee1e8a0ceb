"""Memory, on machines and in control groups of all kinds."""

from pathlib import Path

import pytest
from sottovoce.doctor import Level, Subject
from sottovoce.doctor.machine import allowed_memory, memory

from tests.support.patients import worst_finding

_MIB = 2**20


def _machine(root: Path, available: int, groups: str = "", files: dict[str, str] | None = None) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 8000000 kB\nMemAvailable: {available * 1024} kB\n")
    (root / "proc/self/cgroup").write_text(groups)
    for name, content in (files or {}).items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return root


@pytest.mark.parametrize("available, level", [(40, Level.PROBLEM), (120, Level.WARNING), (900, Level.OK)])
def test_low_memory_is_reported(tmp_path: Path, available: int, level: Level) -> None:
    finding = worst_finding(memory(Subject(), _machine(tmp_path, available)))
    assert finding.level is level
    assert f"{available} MiB left on this machine" in finding.what


def test_a_running_agent_already_has_its_memory(tmp_path: Path) -> None:
    subject = Subject(status={"resources": {"rss_mib": 79.0}})
    assert worst_finding(memory(subject, _machine(tmp_path, 40))).level is Level.OK


def test_the_tightest_control_group_counts_even_if_it_is_an_outer_one(tmp_path: Path) -> None:
    files = {
        "a/memory.max": f"{64 * _MIB}\n",
        "a/memory.current": f"{14 * _MIB}\n",
        "a/b/memory.max": "max\n",
        "a/b/memory.current": "0\n",
    }
    root = _machine(tmp_path, 4000, "0::/a/b\n", files)
    assert allowed_memory(root) == 50 * _MIB
    finding = worst_finding(memory(Subject(), root))
    assert (finding.level, "50 MiB left in this control group" in finding.what) == (Level.PROBLEM, True)


def test_control_groups_version_1(tmp_path: Path) -> None:
    files = {"memory/x/memory.limit_in_bytes": f"{128 * _MIB}", "memory/x/memory.usage_in_bytes": "0"}
    assert allowed_memory(_machine(tmp_path, 4000, "3:cpu:/x\n2:memory:/x\n", files)) == 128 * _MIB


def test_a_system_without_this_information_is_not_a_problem(tmp_path: Path) -> None:
    assert worst_finding(memory(Subject(), tmp_path)).level is Level.OK
