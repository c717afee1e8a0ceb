"""Meters, which turn messages into finished windows and keep only the latest readings, in memory."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from sottovoce.data.feed.store import Window
from sottovoce.days import EXPORT
from sottovoce.errors import MessageRefused

from sottovoce_home.meters.clock import Clock
from sottovoce_home.meters.guards import FreshnessGuard, OrderGuard, RangeGuard, SingleTopicGuard
from sottovoce_home.meters.observation import Observation
from sottovoce_home.meters.payload import extract_value, parse_number, parse_payload, possible_times
from sottovoce_home.meters.reduction import CounterReduction, CounterState, PowerWindows
from sottovoce_home.meters.source import Source, Value, covers

_CLOCK_BACK = "the counter rose but the time did not advance, so a clock was set back; declare the meter's time_zone"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message as received.

    Attributes:
        topic: topic to which the message was published.
        payload: payload of any length and content.
        retained: whether the broker had stored the message earlier.
        monotonic: arrival time on the monotonic clock, in seconds.
        wall: arrival time on this device's wall clock, as Unix time in seconds.
    """

    topic: str
    payload: bytes
    retained: bool
    monotonic: float
    wall: float


class Meter:
    """A meter that checks its messages, sums their values and reduces them to windows.

    Args:
        source: declaration of the meter.
        seconds: length of a window, in seconds.
    """

    def __init__(self, source: Source, seconds: int) -> None:
        self.name = source.meter
        self.filters = tuple(dict.fromkeys(value.topic for value in source.values))
        self.refused: Counter[str] = Counter()
        self.accepted = 0
        self._source = source
        self._clock = Clock()
        self._freshness_guard = FreshnessGuard(source.longest_gap, source.latest, replay=source.replay)
        self.observation = Observation(is_counter=source.counter)
        self._parts = [_ValueReader(value, source) for value in source.values]
        self._counter = CounterReduction(source, seconds) if source.counter else None
        self._windows = self._counter or PowerWindows(seconds, source.longest_gap, net=source.net)

    @property
    def replays(self) -> bool:
        """Whether the meter's messages are of the past."""
        return self._source.replay

    @property
    def has_times(self) -> bool:
        """Whether the meter's messages contain measurement times."""
        return bool(self._source.time_path)

    @property
    def restarts(self) -> int:
        """Number of new counts that began because the meter was reset or replaced or its register overflowed."""
        return 0 if self._counter is None else self._counter.restarts

    @property
    def state(self) -> CounterState | None:
        """State from which a later process continues a count; None for a power."""
        return None if self._counter is None else self._counter.state

    def resume(self, state: CounterState) -> None:
        """Continue the count of an earlier process."""
        if self._counter is not None:
            self._counter.resume(state)

    def listens_to(self, topic: str) -> bool:
        """Return whether a topic matches one of this meter's filters."""
        return any(covers(one, topic) for one in self.filters)

    def process(self, arrival: Arrival) -> list[Window]:
        """Process a message on one of the meter's topics.

        Returns:
            The windows that this message completes.

        Raises:
            MessageRefused: if the message is not accepted; `refused` counts the refusals by reason.
        """
        try:
            return self._reduce(arrival)
        except MessageRefused as refusal:
            self.refused[refusal.reason] += 1
            raise

    def _reduce(self, arrival: Arrival) -> list[Window]:
        source = self._source
        content = parse_payload(arrival.payload, source.json)
        if source.identity_path and str(extract_value(content, source.identity_path)) != source.identity:
            raise MessageRefused("another-meter", "the message is from another meter, perhaps a neighbour's")
        now, was_set = self._clock.to_unix_time(arrival.monotonic, arrival.wall)
        measured = self._measurement_time(content, now) if source.time_path else None
        if was_set and measured is None:
            self._windows.forget()
        self._freshness_guard.check(arrival.retained, measured, now)
        when = now if measured is None else measured
        parts = [part for part in self._parts if covers(part.value.topic, arrival.topic)]
        values = [parse_number(extract_value(content, part.value.path)) * source.factor for part in parts]
        for part, value in zip(parts, values, strict=True):
            try:
                part.accept(arrival.topic, value, when, stamped=measured is not None)
            except ClockSetBack:
                self._windows.forget()
                raise
        windows: list[tuple[int, int]] = []
        if all(part.is_new for part in self._parts):
            for part in self._parts:
                part.is_new = False
            current = tuple(part.last_value for part in self._parts)
            self.observation.add(when, sum(current))
            windows = self._windows.add(when, current)
        self.accepted += 1
        return [kept for number, wh in windows for kept in self._import_export_windows(number, wh)]

    def _measurement_time(self, content: Any, now: float) -> float:
        """Return the measurement time; if two are possible, the one nearest to now or, in a replay, the next one."""
        source = self._source
        possible = possible_times(extract_value(content, source.time_path), source.time_format, source.time_zone)
        if not source.replay:
            return min(possible, key=lambda moment: abs(moment - now))
        newest = max(part.newest_time for part in self._parts)
        return next((moment for moment in possible if moment > newest), possible[-1])

    def _import_export_windows(self, number: int, wh: int) -> list[Window]:
        if not self._source.net:
            return [Window(self.name, number, wh)]
        return [Window(self.name, number, max(0, wh)), Window(self.name + EXPORT, number, max(0, -wh))]


class ClockSetBack(MessageRefused):
    """Refusal because a meter's times went backwards, so the interval between two readings is unknown."""

    def __init__(self, words: str) -> None:
        super().__init__("clock-back", words)


class _ValueReader:
    """A reader for one of the values whose sum is a meter's reading.

    Attributes:
        value: declaration of where to find the value.
        last_value: last accepted value, in Wh or W.
        is_new: whether the last value is newer than the last sum.
    """

    def __init__(self, value: Value, source: Source) -> None:
        self.value = value
        self.last_value = 0.0
        self.is_new = False
        self._is_counter = source.counter
        self._topic_guard = SingleTopicGuard()
        self._order_guard = OrderGuard()
        self._range_guard = RangeGuard(source.max_watts, net=source.net)

    @property
    def newest_time(self) -> float:
        """Measurement time of the newest reading, as Unix time in seconds."""
        return self._order_guard.last

    def accept(self, topic: str, value: float, when: float, *, stamped: bool) -> None:
        """Check and store a value.

        Raises:
            MessageRefused: if the value is not accepted.
        """
        self._topic_guard.check(topic)
        if stamped:
            if self._is_counter and when <= self.newest_time and value > self.last_value:
                raise ClockSetBack(_CLOCK_BACK)
            self._order_guard.check(when)
        if not self._is_counter:
            self._range_guard.check(value)
        self.last_value, self.is_new = value, True
