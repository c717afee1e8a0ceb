"""Rate limit of log lines that others can cause: one a minute."""

import logging
import time
from collections.abc import Hashable

_EVERY_SECONDS = 60.0


class RateLimitedLog:
    """Lines of a log, each cause at most once a minute.

    Args:
        log: where they go.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: dict[Hashable, float] = {}

    def say(self, level: int, cause: Hashable, text: str, *values: object) -> bool:
        """Say it, unless this was said less than a minute ago; returns whether it was said.

        Args:
            level: level of the line.
            cause: cause of few, since each is remembered.
            text: as for logging.
            values: the same.
        """
        if said := self.due(cause):
            self._log.log(level, text, *values)
        return said

    def due(self, cause: Hashable) -> bool:
        """Whether this was not said within the last minute; it counts as said from now on."""
        now = time.monotonic()
        if now - self._said.get(cause, float("-inf")) < _EVERY_SECONDS:
            return False
        self._said[cause] = now
        return True
