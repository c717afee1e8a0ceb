"""Meters as a configuration declares them, and messages as they would arrive."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
from sottovoce.config import FeedSection
from sottovoce.config.feed import built_in_formats
from sottovoce.data.feed import Window
from sottovoce.errors import MessageRefused
from sottovoce_home.meters import Arrival, Meter, Source
from sottovoce_home.sources import build_sources

NOON = 1_780_000_200.0
"""The start of a half-hour window in 2026, as Unix time in seconds."""

_STARTED = 1000.0  # start of the monotonic clock


@dataclass(slots=True)
class Home:
    """Meter and clock, with a record of events.

    Attributes:
        meter: the meter that takes the messages.
        now: the time, in seconds of Unix time.
        windows: pairs of a window's number since NOON and its energy in Wh.
        refused: reasons of refusals, in order.
    """

    meter: Meter
    now: float = NOON
    windows: list[tuple[int, int]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def say(self, topic: str, payload: str | bytes, *, retained: bool = False, after: float = 10.0) -> "Home":
        """Deliver a message, and then let time pass."""
        raw = payload.encode() if isinstance(payload, str) else payload
        assert self.meter.listens_to(topic), "nothing listens there"
        arrival = Arrival(topic, raw, retained, self.now - NOON + _STARTED, self.now)
        try:
            self.windows += [(window.number - _first(), window.wh) for window in self._taken(arrival)]
        except MessageRefused as refusal:
            self.refused.append(refusal.reason)
        self.now += after
        return self

    def _taken(self, arrival: Arrival) -> list[Window]:
        return self.meter.process(arrival)


def home(name: str, *, feed: dict[str, Any] | None = None, **keys: Any) -> Home:
    """Create a home with one meter in the named format; `keys` configure the meter, and `feed` the `[feed]` section."""
    table = {**(feed or {}), "meters": [{"name": "house", "format": name, **keys}]}
    section = msgspec.convert(table, FeedSection)
    (source,) = build_sources(section)
    return Home(Meter(source, section.window))


def example_meter(name: str, **keys: Any) -> tuple[Source, Meter]:
    """Return the meter of a built-in format's example; `keys` configure it further."""
    example = built_in_formats()[name].example
    identity = {} if example.id is None else {"id": example.id}
    meter = {"name": "house", "format": name, "names": example.names, **identity, **keys}
    section = msgspec.convert({"meters": [meter]}, FeedSection)
    (source,) = build_sources(section)
    return source, Meter(source, section.window)


def _first() -> int:
    return int(NOON // 1800)
