"""Logging of unhandled asyncio errors."""

import asyncio
import errno
import logging

import pytest
from sottovoce.node import faults
from sottovoce.ops import RateLimitedLog


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> asyncio.AbstractEventLoop:
    monkeypatch.setattr(faults, "_sparse_log", RateLimitedLog(logging.getLogger("sottovoce.node.faults")))
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(faults.log_loop_error)
    return loop


def test_a_refused_resource_is_logged_once_a_minute(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10):
        refused = OSError(errno.EMFILE, "Too many open files")
        loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": refused})
    loop.close()
    expected_line = "event-loop-fault socket.accept() out of system resource: [Errno 24] Too many open files"
    assert [record.getMessage() for record in caplog.records] == [expected_line]


def test_a_lack_of_memory_is_logged_once_a_minute(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10):
        loop.call_exception_handler({"message": "Task exception was never retrieved", "exception": MemoryError()})
    loop.close()
    expected_line = "event-loop-fault Task exception was never retrieved: no memory"
    assert [record.getMessage() for record in caplog.records] == [expected_line]


def test_a_defect_is_logged_with_its_traceback_once_a_minute(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    for error in [*[ValueError("of a defect")] * 10, KeyError("of another")]:
        loop.call_exception_handler({"message": "a task failed", "exception": error})
    loop.close()
    assert len(caplog.records) == 2
    assert "ValueError: of a defect" in caplog.text
    assert "KeyError: 'of another'" in caplog.text
