"""What an agent tells its owner: log lines and counters, all of public events."""

from sottovoce.observe.counters import Counters
from sottovoce.observe.logs import log_to_stderr

__all__ = ["Counters", "log_to_stderr"]
