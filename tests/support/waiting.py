"""Wait for other processes by polling until a deadline, never by sleeping for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
TIMEOUT = 60.0  # seconds; an unused deadline costs nothing, but one that is too short fails a run
_PAUSE = 0.02


def until(condition: Callable[[], T], what: str, seconds: float = TIMEOUT) -> T:
    """Wait for the first true value of `condition`; fail with the words `what` if there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(_PAUSE)
