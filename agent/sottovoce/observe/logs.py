"""One line an event, on standard error: time, level, event name, words. Never a reading, never an un-noised number."""

import logging
import sys
import time

_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def log_to_stderr(level: str) -> None:
    """Send the program's log lines to standard error, in UTC."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter(_FORMAT, datefmt="%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger("sottovoce")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
