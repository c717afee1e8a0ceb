"""Logging to standard error, with one line per event: time, level, event name and text.

Log lines contain neither readings nor noise-free results computed from them. The event names are listed in
docs/reference/events.md.
"""

import json
import logging
import math
import re
import sys
import time
from collections.abc import Hashable
from typing import Any, Literal

_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_PLACEHOLDER = re.compile(r"(?:(\w+)=)?%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")


def log_to_stderr(level: str, form: Literal["text", "json"] = "text") -> None:
    """Send the program's log lines to standard error, with times in UTC.

    Args:
        level: lowest level that is logged.
        form: "text" for readable lines, or "json" for one JSON object per line.
    """
    handler = logging.StreamHandler(sys.stderr)
    formatter = JsonLines() if form == "json" else logging.Formatter(_FORMAT, datefmt=_TIME)
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger("sottovoce")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


class JsonLines(logging.Formatter):
    """Log formatter for JSON lines with `time`, `level`, `event`, `text`, and `fields` from each `name=…`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of ASCII JSON."""
        event, _, text = record.getMessage().partition(" ")
        document = {
            "time": self.formatTime(record, _TIME),
            "level": record.levelname.lower(),
            "event": event.rstrip(":"),
            "text": text,
            "fields": fields(str(record.msg), record.args),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document)


def fields(template: str, values: object) -> dict[str, Any]:
    """Return the named fields of a log line.

    Args:
        template: logging template, such as `message-refused sender=%s reason=%s %s`.
        values: arguments for the template, in order.

    Returns:
        The values keyed by name, as numbers where possible and otherwise as text.
    """
    if not isinstance(values, tuple):
        return {}
    placeholders = [match for match in _PLACEHOLDER.finditer(template) if not match[0].endswith("%%")]
    pairs = ((match[1], value) for match, value in zip(placeholders, values, strict=False) if match[1])
    return {name: value if _is_number(value) else str(value) for name, value in pairs}


def _is_number(value: object) -> bool:
    """Return whether JSON can represent the value as a number."""
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


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
