"""Log lines and counters for an agent's owner, which cover only public events."""

from sottovoce.observe.counters import Counters
from sottovoce.observe.logs import log_to_stderr
from sottovoce.observe.rate_limited_log import RateLimitedLog

__all__ = ["Counters", "RateLimitedLog", "log_to_stderr"]
