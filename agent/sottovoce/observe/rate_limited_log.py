"""Rate limit for log lines that other devices can trigger: one line per minute for each cause."""

import logging
import time
from collections.abc import Hashable

_EVERY_SECONDS = 60.0


class RateLimitedLog:
    """Log that writes at most one line per minute for each cause.

    Args:
        log: logger that writes the lines.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged_at: dict[Hashable, float] = {}

    def log(self, level: int, cause: Hashable, text: str, *values: object) -> bool:
        """Log a line unless its cause was logged less than a minute ago; return whether the line was logged.

        Args:
            level: log level of the line.
            cause: one of a small number of causes, because each one is stored.
            text: logging template.
            values: arguments for the template.
        """
        if should_log := self.should_log(cause):
            self._log.log(level, text, *values)
        return should_log

    def should_log(self, cause: Hashable) -> bool:
        """Return whether this cause has not been logged within the last minute, and if so, record it as logged now."""
        now = time.monotonic()
        if now - self._logged_at.get(cause, float("-inf")) < _EVERY_SECONDS:
            return False
        self._logged_at[cause] = now
        return True
