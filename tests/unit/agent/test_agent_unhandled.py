"""Errors that no task waits for."""

import asyncio
import errno
import logging

import pytest
from sottovoce.agent import unhandled
from sottovoce.observe import RateLimitedLog


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> asyncio.AbstractEventLoop:
    monkeypatch.setattr(unhandled, "_seldom", RateLimitedLog(logging.getLogger("sottovoce.agent.unhandled")))
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(unhandled.handle)
    return loop


def test_what_the_system_refuses_is_one_line_a_minute(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10):
        refused = OSError(errno.EMFILE, "Too many open files")
        loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": refused})
    loop.close()
    said = "event-loop-fault socket.accept() out of system resource: [Errno 24] Too many open files"
    assert [record.getMessage() for record in caplog.records] == [said]


def test_a_defect_is_told_with_its_traceback(loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture) -> None:
    loop.call_exception_handler({"message": "a task failed", "exception": ValueError("of a defect")})
    loop.close()
    assert "ValueError: of a defect" in caplog.text
