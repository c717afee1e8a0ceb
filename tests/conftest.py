"""Marks state what a test needs: a test that starts a process or computes for long without its mark fails.

`make test` selects tests by these marks, and coverage is not measured for tests that compute for long. Only a test of
processes is repeated, once, after a failure, since it depends on real clocks; each such test is listed as defective.
"""

import multiprocessing.util
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import coverage
import pytest

SLOW_SECONDS = 2.0
"""Processor time above which an unmarked test, with its threads and fixtures, is listed; waiting costs none."""

MAX_SECONDS = 8.0  # then it fails; between the two, the cause may be a slow machine, or one busy with other work

MAX_FLAKY = 5  # more failures than this have another cause than bad timing
_COMPUTES = {"slow", "statistical"}
_LIBRARIES = {"/sbin/ldconfig", "fc-list"}
"""Programs that libraries start: ctypes on an import, and matplotlib until it has cached the list of fonts."""

_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "tests.process"}
_started: list[str] = []
_starting: set[tuple[str, str]] = set()  # fixtures, each with its module
_BEFORE = pytest.StashKey[tuple[float, int]]()
_SLOW = "slow"  # a property of a report, in seconds


def _note_start(event: str, arguments: tuple[object, ...]) -> None:
    if event in _STARTS and _LIBRARIES.isdisjoint(arguments[:1]):
        _started.append(f"{event} {arguments[:2]}")


def _audited_spawn(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
    sys.audit("tests.process", "multiprocessing")
    return _spawn(path, args, passfds)


# The standard library reports each of its ways to start a process to audit hooks, except this one.
_spawn = multiprocessing.util.spawnv_passfds
multiprocessing.util.spawnv_passfds = _audited_spawn
sys.addaudithook(_note_start)


def _marks(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "process" in _marks(item):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run a test without measuring coverage if it computes for long: measuring doubles the time."""
    measured = coverage.Coverage.current()
    if measured is None or not _COMPUTES & _marks(item):
        return (yield)
    measured.stop()
    try:
        return (yield)
    finally:
        measured.start()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
    """Note which shared fixtures start processes: in another order, any of their tests may be the first."""
    count = len(_started)
    result = yield
    if len(_started) > count and fixturedef.scope != "function":
        _starting.add((fixturedef.argname, fixturedef.baseid))
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[_BEFORE] = time.process_time(), len(_started)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    result = yield
    seconds, count = item.stash[_BEFORE]
    marks, took = _marks(item), time.process_time() - seconds
    used = getattr(item, "fixturenames", ())
    fixtures = [name for name, place in _starting if name in used and item.nodeid.startswith(place)]
    if "soak" in marks:
        return result
    if started := [*_started[count:], *fixtures]:
        assert "process" in marks, f"starts a process; mark it with pytest.mark.process: {started}"
    elif coverage.Coverage.current() is None and not marks & {"process", *_COMPUTES}:
        assert took <= MAX_SECONDS, (
            f"takes {took:.1f} s of processor time; mark it as slow or statistical, or shorten it"
        )
        if took > SLOW_SECONDS:
            item.user_properties.append((_SLOW, round(took, 1)))
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for test in _flaky(terminalreporter):
        terminalreporter.write_line(f"FLAKY {test}")
    for report in terminalreporter.stats.get("", ()):  # of teardowns
        for name, seconds in report.user_properties:
            if name == _SLOW:
                terminalreporter.write_line(f"SLOW {report.nodeid}, {seconds} s; mark it as slow, or shorten it")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and len(_flaky(reporter)) > MAX_FLAKY and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _flaky(reporter: pytest.TerminalReporter) -> list[str]:
    """Return the tests that failed, then passed."""
    failed = {report.nodeid for kind in ("failed", "error") for report in reporter.stats.get(kind, ())}
    return sorted({report.nodeid for report in reporter.stats.get("rerun", ())} - failed)
