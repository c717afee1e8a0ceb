"""Declaration of a meter: where its values are, their unit, and their plausible range."""

from dataclasses import dataclass
from typing import Literal

TimeFormat = Literal["iso8601", "seconds", "milliseconds"]


@dataclass(frozen=True, slots=True)
class Value:
    """One number that a meter publishes.

    Attributes:
        topic: filter of its topics; `+` stands for one level, `#` at the end for all that follow.
        path: keys and indices that lead to it in a JSON payload; empty for a payload that is the number.
    """

    topic: str
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Declaration of one meter.

    Attributes:
        meter: name of the meter on this device, the only attribute that is stored or logged.
        counter: whether its values are energies; otherwise they are powers.
        json: whether payloads are JSON; otherwise each is one number.
        factor: Wh, or for powers W, in one unit of a value.
        values: values whose sum is the meter's.
        identity: value at `identity_path` in its own messages.
        identity_path: path of that identity; empty if messages have none.
        time_path: path of the time of measurement; empty if the time of arrival counts.
        time_format: format of that time.
        time_zone: time zone for ISO 8601 times without one, such as Europe/Berlin; without it, such times are refused.
        max_watts: the largest plausible power, W.
        resolution: the smallest step of a counter, Wh.
        longest_gap: seconds between two readings beyond which the energy between them is missing.
        replay: whether times in the past are allowed.
        net: whether energy that is fed in counts against energy that is taken.
    """

    meter: str
    counter: bool
    json: bool
    factor: float
    values: tuple[Value, ...]
    identity: str = ""
    identity_path: tuple[str, ...] = ()
    time_path: tuple[str, ...] = ()
    time_format: TimeFormat = "iso8601"
    time_zone: str | None = None
    max_watts: float = 100_000.0
    resolution: float = 0.0
    longest_gap: float = 600.0
    replay: bool = False
    net: bool = False


def covers(topic_filter: str, topic: str) -> bool:
    """Return whether a topic is one of a filter's."""
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted = wanted[:-1]
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(one in ("+", level) for one, level in zip(wanted, levels, strict=True))
