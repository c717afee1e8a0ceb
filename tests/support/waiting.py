"""Wait for a condition by polling until a deadline, never by sleeping for a fixed time."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
TIMEOUT = 120.0  # seconds; an unused deadline costs nothing, but one that is too short fails a run
_PAUSE, _SHORT_PAUSE = 0.02, 0.001


def until(condition: Callable[[], T], what: str, seconds: float = TIMEOUT) -> T:
    """Wait for the first true value of `condition`; fail with the words `what` if there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(_PAUSE)


async def eventually(condition: Callable[[], T], what: str = "the condition holds", seconds: float = TIMEOUT) -> T:
    """Wait as `until` does, while the other tasks of this loop run."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(_SHORT_PAUSE)


async def let_others_run(turns: int = 1) -> None:
    """Let the loop's other tasks run until each waits for something, or for this many turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
