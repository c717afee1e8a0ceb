"""Observation of meters, day by day; only the owner sees it, and it decides nothing."""

import math
from collections import deque
from statistics import median

import msgspec
from sottovoce.days import DAY

_PARTS_OF_WH = 10
_INTERVALS = 101


class DayFacts(msgspec.Struct, frozen=True):
    """Facts about a meter in one UTC day, so far.

    Attributes:
        is_counter: whether the readings are energies; otherwise they are powers.
        readings: number of readings, right or wrong.
        seconds: median time between two readings; 0 with fewer than two.
        changes: number of readings that differ from the one before.
        falls: number of readings below the one before.
        zeros: number of readings of 0.
        step: largest energy in Wh that divides all changes of a counter; 0 for a power or without changes.
        flat: longest time in seconds without a change.
        rise: energy in Wh by which a counter rose in all rises, right or wrong, or the highest power in W.
        span: seconds between the first and the last reading.
    """

    is_counter: bool = True
    readings: int = 0
    seconds: float = 0.0
    changes: int = 0
    falls: int = 0
    zeros: int = 0
    step: float = 0.0
    flat: float = 0.0
    rise: float = 0.0
    span: float = 0.0


class Observation:
    """Observer of a meter's readings, before they are judged.

    Args:
        is_counter: whether the readings are energies; otherwise they are powers.
    """

    def __init__(self, *, is_counter: bool) -> None:
        self._is_counter = is_counter
        self._days: dict[int, DayFacts] = {}
        self._begin(0)

    def _begin(self, day: int) -> None:
        self._day = day
        self._intervals = deque[float](maxlen=_INTERVALS)
        self._readings = self._changes = self._falls = self._zeros = self._step = 0
        self._flat = self._rise = self._first = self._changed = 0.0
        self._last: tuple[float, float] | None = None

    def add(self, time: float, total: float) -> None:
        """Observe a reading.

        Args:
            time: Unix time, in seconds.
            total: sum of the meter's values, in Wh or W.
        """
        if int(time // DAY) != self._day:
            self._days = {self._day: self._facts()}
            self._begin(int(time // DAY))
        self._readings += 1
        self._zeros += total == 0
        if not self._is_counter:
            self._rise = max(self._rise, total)
        if self._last is None:
            self._first = self._changed = time
        else:
            before, value = self._last
            self._intervals.append(time - before)
            if total != value:
                self._changes += 1
                self._falls += total < value
                self._changed = time
                if self._is_counter:
                    self._step = math.gcd(self._step, round((total - value) * _PARTS_OF_WH))
                    self._rise += max(0.0, total - value)
            self._flat = max(self._flat, time - self._changed)
        self._last = time, total

    @property
    def days(self) -> dict[int, DayFacts]:
        """Facts of the current day and the previous one with readings, by day number."""
        return {day: facts for day, facts in {**self._days, self._day: self._facts()}.items() if facts.readings}

    def _facts(self) -> DayFacts:
        return DayFacts(
            is_counter=self._is_counter,
            readings=self._readings,
            seconds=median(self._intervals) if self._intervals else 0.0,
            changes=self._changes,
            falls=self._falls,
            zeros=self._zeros,
            step=self._step / _PARTS_OF_WH,
            flat=self._flat,
            rise=self._rise,
            span=0.0 if self._last is None else self._last[0] - self._first,
        )
