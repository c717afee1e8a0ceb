"""Declaration of a meter, with the location, the unit and the plausible range of its values."""

from dataclasses import dataclass
from typing import Literal

TimeFormat = Literal["iso8601", "seconds", "milliseconds"]


@dataclass(frozen=True, slots=True)
class Value:
    """One number that a meter publishes.

    Attributes:
        topic: topic filter, in which `+` matches one level, and `#` at the end matches all further levels.
        path: keys and indices that lead to the number in a JSON payload; empty if the payload is the number.
    """

    topic: str
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Declaration of one meter.

    Attributes:
        meter: name of the meter on this device, which is the only attribute that is stored or logged.
        counter: whether the values are energies; otherwise they are powers.
        json: whether payloads are JSON; otherwise each payload is one number.
        factor: factor that converts a value to Wh, or to W for powers.
        values: values whose sum is the meter's reading.
        identity: value at `identity_path` in the meter's own messages.
        identity_path: path of the meter's identity; empty if messages have none.
        time_path: path of the measurement time; empty if the arrival time is used.
        time_format: format of the measurement time.
        time_zone: time zone for ISO 8601 times that have none, such as Europe/Berlin; if None, such times are refused.
        max_watts: largest plausible power, in W.
        resolution: smallest step of a counter, in Wh.
        longest_gap: time between two readings, in seconds, beyond which the energy between them counts as missing.
        gap_is_set: whether readings that are regularly further apart leave gaps, too.
        latest: greatest age, in seconds, at which a measurement is accepted.
        replay: whether times in the past are allowed.
        net: whether exported energy is subtracted from imported energy.
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
    gap_is_set: bool = False
    latest: float = 900.0
    replay: bool = False
    net: bool = False


def covers(topic_filter: str, topic: str) -> bool:
    """Return whether a topic filter matches a topic."""
    pattern, levels = topic_filter.split("/"), topic.split("/")
    if pattern[-1] == "#":
        pattern = pattern[:-1]
        levels = levels[: len(pattern)]
    return len(pattern) == len(levels) and all(one in ("+", level) for one, level in zip(pattern, levels, strict=True))
