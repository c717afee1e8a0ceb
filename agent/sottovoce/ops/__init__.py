"""Log lines and counters for an agent's owner, which cover only public events."""

from sottovoce.ops.counters import Counters
from sottovoce.ops.logs import RateLimitedLog, log_to_stderr

__all__ = ["Counters", "RateLimitedLog", "log_to_stderr"]
