"""Marks are enforced: a test without the mark of what it does fails, and only a test of processes is repeated."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
CONFTEST = Path(__file__).parents[2] / "conftest.py"
INI = "[pytest]\nmarkers = {marks}\naddopts = --import-mode=importlib --strict-markers -q -p no:cacheprovider\n"
HEAD = "import multiprocessing, os, pathlib, subprocess, sys, threading, time\nimport pytest\n"
PROCESSES = ["os.wait() if os.fork() else os._exit(0)", "subprocess.run([sys.executable, '-c', ''])"]
SPAWNED = "c = multiprocessing.get_context('spawn').Process(target=time.time)\n    c.start()\n    c.join()"
LONG = "a = time.process_time()\n    while time.process_time() - a < {}: pass"
SCALE = 0.1  # of the limits of processor time, since these tests reach them


def run(directory: Path, body: str, *arguments: str) -> str:
    """Run a file of tests beside this project's conftest.py, with lower limits, and return what pytest printed."""
    marks = "".join(f"\n    {name}: x" for name in ("process", "slow", "smoke", "soak", "statistical"))
    (directory / "pytest.ini").write_text(INI.format(marks=marks))
    text, count = re.subn(r"(?m)^((?:SLOW|MAX)_SECONDS) = ([0-9.]+)", rf"\1 = {SCALE} * \2", CONFTEST.read_text())
    assert count == 2
    (directory / "conftest.py").write_text(text)
    (directory / "test_x.py").write_text(HEAD + body)
    return start(directory, *arguments).stdout


def start(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest there, without this run's coverage, under which time is not limited."""
    command = [sys.executable, "-m", "pytest", *arguments, str(directory)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("start", [*PROCESSES, SPAWNED])
def test_an_unmarked_test_starts_no_process(tmp_path: Path, start: str) -> None:
    body = f"def test_one():\n    {start}\n"
    output = run(tmp_path, body)
    assert "1 passed, 1 error" in output, output
    assert "starts a process; mark it with pytest.mark.process" in output
    assert "1 passed in" in run(tmp_path, f"@pytest.mark.process\n{body}")
    assert "1 passed in" in run(tmp_path, f"@pytest.mark.soak\n{body}")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_unmarked_test_that_takes_long_is_listed(tmp_path: Path, workers: str) -> None:
    body = f"def test_one():\n    {LONG.format(2.2 * SCALE)}\ndef test_waits(): threading.Event().wait({2.2 * SCALE})\n"
    for mark in ("slow", "statistical", "process", "soak"):
        body += f"@pytest.mark.{mark}\ndef test_{mark}():\n    {LONG.format(2.2 * SCALE)}\n"
    output = run(tmp_path, body, "-n", workers)
    assert "6 passed in" in output, output
    assert re.findall(r"SLOW (\S+), 0\.[2-7] s;", output) == ["test_x.py::test_one"]


def test_an_unmarked_test_that_takes_much_too_long_fails(tmp_path: Path) -> None:
    output = run(tmp_path, f"def test_one():\n    {LONG.format(8.2 * SCALE)}\n")
    assert "1 passed, 1 error" in output, output
    assert "of processor time; mark it as slow or statistical" in output


FAILS_ONCE = "def test_one():\n    a = pathlib.Path('a')\n    if not a.exists():\n        a.touch()\n        assert 0\n"


@pytest.mark.parametrize("workers", ["0", "2"])
def test_only_a_test_of_processes_is_repeated_and_it_is_listed(tmp_path: Path, workers: str) -> None:
    assert "1 failed" in run(tmp_path, FAILS_ONCE, "-n", workers)
    (tmp_path / "a").unlink()
    output = run(tmp_path, f"@pytest.mark.process\n{FAILS_ONCE}", "-n", workers)
    assert "FLAKY test_x.py::test_one\n" in output, output
    assert "1 passed, 1 rerun" in output
    failing = run(tmp_path, "@pytest.mark.process\ndef test_one():\n    assert 0\n", "-n", workers)
    assert "1 failed, 1 rerun" in failing, failing
    assert "FLAKY" not in failing


def test_many_flaky_tests_have_another_cause_than_bad_timing(tmp_path: Path) -> None:
    body = f"@pytest.mark.process\n@pytest.mark.parametrize('name', list('{{}}'))\n{FAILS_ONCE}"
    body = body.replace("test_one()", "test_one(name)").replace("'a'", "name")
    for names, code in (("abcde", 0), ("uvwxyz", 1)):
        run(tmp_path, body.format(names), "--collect-only")
        completed = start(tmp_path)
        assert (completed.returncode, completed.stdout.count("FLAKY")) == (code, len(names)), completed.stdout
