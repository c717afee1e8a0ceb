"""Days of meters, described for their owner; energies are for the terminal of the owner alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from sottovoce.data.feed.store import SCHEMA, StoreReading, window_seconds
from sottovoce.days import DAY

from sottovoce_home.meters import DayFacts
from sottovoce_home.meters.reduction import FREQUENT_SECONDS

_HIGH_WATTS, _LOW_WATTS = 20_000.0, 2.0
"""A home uses more than 2 W and less than 20 kW on average; a wrong unit is off by a factor of 1000."""
_LOW_PEAK_WATTS = 20.0  # a home in kW whose power is read in W stays below this
_SPAN_SECONDS = 1800.0  # shorter observations say nothing about a unit
_FEW_WINDOWS = 0.9
_RARE_SECONDS = 600.0
_COARSE_STEP = 100.0
_OFTEN = 0.02
_OBSERVED_SCHEMA = 4


@dataclass(frozen=True, slots=True)
class MeterDay:
    """A meter's day.

    Attributes:
        meter: name of the meter.
        is_over: whether the day is over, so that its windows should be complete.
        seconds: length of a window, in seconds.
        facts: what the meter was observed to do.
        windows: number of stored windows.
        wh: energy of the stored windows, in Wh.
    """

    meter: str
    is_over: bool
    seconds: int
    facts: DayFacts
    windows: int
    wh: int

    @property
    def watts(self) -> float:
        """Mean power in W: that of the stored windows, or else that of all readings of a counter; 0 if unknown."""
        if self.windows:
            return self.wh * 3600 / (self.windows * self.seconds)
        facts = self.facts
        if not facts.is_counter or facts.falls or facts.span < _SPAN_SECONDS:
            return 0.0
        return facts.rise * 3600 / facts.span

    def describe(self) -> str:
        """Return the day's energy and how the meter reports."""
        words = [f"{'yesterday' if self.is_over else 'today'} {self.wh / 1000:,.1f} kWh in {self.windows} windows"]
        if self.facts.seconds:
            words.append(f"messages every {_duration(self.facts.seconds)}")
        if self.facts.step:
            words.append(f"step {_energy(self.facts.step)}")
        if self.facts.falls:
            words.append(f"{self.facts.falls} of {self.facts.readings} messages fell")
        if self.facts.zeros:
            words.append(f"{self.facts.zeros} messages of 0")
        return "; ".join(words)

    def questions(self) -> Iterator[str]:
        """Yield what looks wrong; without energies, unless these are the reason."""
        facts, expected = self.facts, DAY // self.seconds
        if self.watts > _HIGH_WATTS:
            kwh = self.watts * self.seconds / 3_600_000
            yield f"{kwh:,.0f} kWh in {_duration(self.seconds)}: is the unit Wh?"
        elif facts.span >= _SPAN_SECONDS and facts.changes:
            if not facts.is_counter and facts.rise < _LOW_PEAK_WATTS:
                yield f"at most {facts.rise:.2f} W: is the unit kW?"
            elif facts.is_counter and 0 < self.watts < _LOW_WATTS:
                yield f"{self.watts:.2f} W on average: is the unit kWh?"
        if facts.readings > 1 and not facts.changes and facts.span > DAY / 4:
            yield f"no change for {_duration(facts.span)}: is the meter, or the tool that reads it, stuck?"
        elif self.is_over and self.windows < _FEW_WINDOWS * expected:
            share = f"{self.windows} windows of {expected}"
            if facts.seconds > self.seconds:
                yield f"messages every {_duration(facts.seconds)}, longer than a window: {share}; set feed.window"
            elif facts.seconds > _RARE_SECONDS and facts.changes >= facts.readings - 1:
                yield f"messages only on change: {share}; have the tool report every few minutes, too"
            elif facts.seconds > FREQUENT_SECONDS:
                yield f"messages every {_duration(facts.seconds)}: {share}; have the tool report every minute or two"
            else:
                yield f"{share}: the others have no readings at their edges, or no plausible ones"
        if facts.step >= _COARSE_STEP:
            yield f"step {_energy(facts.step)}: the energy of a step is spread evenly over the time until the next"
        if facts.falls > _OFTEN * facts.readings:
            yield f"{facts.falls} of {facts.readings} messages fell; if energy is fed in, set net = true"


def read_meter_days(path: Path, now: float, *, create_no_files: bool = False) -> list[MeterDay]:
    """Return yesterday of each meter, or today for a meter that was not observed yesterday, in order of names.

    Args:
        path: path of the store.
        now: the current Unix time, in seconds.
        create_no_files: whether to avoid creating SQLite's additional files if no process has the store open.

    Raises:
        DataError: if the store does not exist or is corrupt.
    """
    today = int(now // DAY)
    with StoreReading(
        path, is_closed=create_no_files and not path.with_name(path.name + "-wal").exists()
    ) as connection:
        if SCHEMA.version(connection, path) < _OBSERVED_SCHEMA:  # the feed upgrades the store when it next starts
            return []
        seconds = window_seconds(connection)
        found = connection.execute("SELECT meter, day, facts FROM observed ORDER BY meter, day DESC").fetchall()
        observed = {(meter, day): msgspec.msgpack.decode(facts, type=DayFacts) for meter, day, facts in found}
        days = []
        for meter in dict.fromkeys(meter for meter, _ in observed):
            day = today - 1 if (meter, today - 1) in observed else today
            if (meter, day) not in observed:
                continue
            windows, wh = connection.execute(
                "SELECT COUNT(*), IFNULL(SUM(wh), 0) FROM window JOIN meter ON meter.number = window.meter "
                "WHERE name = ? AND window.number >= ? AND window.number < ?",
                (meter, day * DAY // seconds, (day + 1) * DAY // seconds),
            ).fetchone()
            days.append(MeterDay(meter, day < today, seconds, observed[meter, day], windows, wh))
        return days


def _duration(seconds: float) -> str:
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _energy(wh: float) -> str:
    return f"{wh / 1000:.3g} kWh" if wh >= 1000 else f"{wh:.3g} Wh"
