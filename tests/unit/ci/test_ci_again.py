"""Retries in CI: one for tests with real processes and clocks, none for tests of arithmetic."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

AGAIN = Path(__file__).parents[3] / ".ci" / "again"
FLEET, BROKER = "tests/integration/test_a.py::test_fleet", "tests/chaos/test_b.py::test_broker[mqtt]"
UNIT, UNREAD = "tests/unit/test_c.py::test_sum", "tests/integration/test_d.py"


def cache(directory: Path, *failed: str) -> Path:
    """A stream's cache, as pytest leaves it."""
    kept = directory / "v" / "cache"
    kept.mkdir(parents=True)
    if failed:
        (kept / "lastfailed").write_text(json.dumps(dict.fromkeys(failed, True)))
    return directory


def again(*caches: Path) -> tuple[int, list[str]]:
    completed = subprocess.run([sys.executable, AGAIN, *caches], capture_output=True, text=True, check=False)
    return completed.returncode, completed.stdout.split()


def test_a_failure_in_any_stream_is_named_once(tmp_path: Path) -> None:
    first, second, third = (cache(tmp_path / name, *of) for name, of in (("0", [FLEET]), ("1", [BROKER]), ("2", [])))
    assert again(first, second, third) == (0, [BROKER, FLEET])


@pytest.mark.parametrize("other", [UNIT, UNREAD])
def test_other_tests_have_no_retry(tmp_path: Path, other: str) -> None:
    assert again(cache(tmp_path / "0", FLEET), cache(tmp_path / "1", other)) == (1, [])


def test_many_failures_are_not_retried(tmp_path: Path) -> None:
    assert again(cache(tmp_path / "0", *(f"{FLEET}[{i}]" for i in range(6))))[0] == 1
