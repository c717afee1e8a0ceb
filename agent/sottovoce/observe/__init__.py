"""What an agent tells its owner: log lines and counters, all of public events."""

from sottovoce.observe.counters import Counters
from sottovoce.observe.logs import log_to_stderr
from sottovoce.observe.seldom import Seldom

__all__ = ["Counters", "Seldom", "log_to_stderr"]
