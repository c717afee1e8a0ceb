"""Rate limit for log lines that others can cause: one per minute and cause."""

import logging
import time
from collections.abc import Hashable

_EVERY_SECONDS = 60.0


class RateLimitedLog:
    """Log that writes at most one line a minute per cause.

    Args:
        log: logger that writes the lines.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged_at: dict[Hashable, float] = {}

    def say(self, level: int, cause: Hashable, text: str, *values: object) -> bool:
        """Log a line unless its cause was logged less than a minute ago; return whether the line was logged.

        Args:
            level: level of the line.
            cause: one of a small number of causes, since each is remembered.
            text: as for logging.
            values: values for the text, as for logging.
        """
        if said := self.due(cause):
            self._log.log(level, text, *values)
        return said

    def due(self, cause: Hashable) -> bool:
        """Return whether this cause was not logged within the last minute; it counts as logged from now on."""
        now = time.monotonic()
        if now - self._logged_at.get(cause, float("-inf")) < _EVERY_SECONDS:
            return False
        self._logged_at[cause] = now
        return True
