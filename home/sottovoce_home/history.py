"""Days of a home's past: which of the intervals in a file `sottovoce feed import` stores."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from sottovoce.config.feed import FeedSection, MeterSection
from sottovoce.data.feed import Window
from sottovoce.data.feed.store import read_windows
from sottovoce.days import DAY, NOT_BEFORE
from sottovoce.errors import DataError


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of a file.

    Attributes:
        line: line of the file.
        start: start of the interval, in seconds of Unix time.
        wh: energy in Wh.
    """

    line: int
    start: int
    wh: float


@dataclass(frozen=True, slots=True)
class History:
    """Intervals of a file in order of time, all of the same length `step`, in seconds."""

    step: int
    intervals: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Import:
    """Days that an import stores, and those that it leaves out.

    Attributes:
        windows: windows of the days to store, in order.
        days: number of windows and energy in Wh of each day to store, by day number.
        left_out: why a day is left out, by day number.
    """

    windows: tuple[Window, ...]
    days: dict[int, tuple[int, int]]
    left_out: dict[int, str]


def plan(history: History, path: Path, feed: FeedSection, meter: MeterSection, now: float) -> Import:
    """Return which windows and days of a history an import stores; nothing is written.

    A day that has windows of any meter is left out, so no day changes after it may have been used.

    Args:
        history: intervals in a file.
        path: path of the file, for errors.
        feed: configuration of the feed and its store.
        meter: meter to which the windows belong.
        now: the current Unix time, in seconds.

    Raises:
        DataError: if the clock is not set, the step does not fit the windows, a value exceeds the meter's `max_power`,
            or the store is corrupt or has windows of another length.
    """
    if now < NOT_BEFORE:
        raise DataError("the clock of this device is not set, so it is unknown which days are over; set the clock")
    seconds, step = feed.window, history.step
    if seconds % step:
        remedy = f"set feed.window = {step} and a new feed.store" if DAY % step == 0 else "export another step"
        raise DataError(
            f"{path}: intervals of {step} s cannot be divided into windows of {seconds} s without inventing energy; "
            f"{remedy}"
        )
    limit = meter.max_power * 1000 * step / 3600
    sums: dict[int, list[float]] = {}
    for interval in history.intervals:
        if interval.wh > limit:
            raise DataError(
                f"{path}, line {interval.line}: the value is above max_power of {meter.name}, {meter.max_power:g} kW; "
                "check --unit"
            )
        sums.setdefault(interval.start // seconds, []).append(interval.wh)
    whole = {number: round(math.fsum(parts)) for number, parts in sums.items() if len(parts) == seconds // step}
    first, last = history.intervals[0].start, history.intervals[-1].start + step
    stored = _stored_days(feed)
    windows: list[Window] = []
    days: dict[int, tuple[int, int]] = {}
    left_out: dict[int, str] = {}
    for day in range(first // DAY, (last - 1) // DAY + 1):
        numbers = [number for number in range(day * DAY // seconds, (day + 1) * DAY // seconds) if number in whole]
        if day in stored:
            left_out[day] = "the store already has windows of this day"
        elif (day + 1) * DAY + feed.lateness > now:
            left_out[day] = "the day is not complete yet"
        elif day < now // DAY - feed.keep_days:
            left_out[day] = f"older than feed.keep_days = {feed.keep_days}"
        elif day * DAY < first or (day + 1) * DAY > last:
            left_out[day] = "the file contains only a part of this day, UTC"
        elif not numbers:
            left_out[day] = "the file has no whole window on this day"
        elif not any(whole[number] for number in numbers):
            left_out[day] = "no energy on the whole day, as from a stuck meter or a filled gap"
        else:
            windows += [Window(meter.name, number, whole[number]) for number in numbers]
            days[day] = len(numbers), sum(whole[number] for number in numbers)
    return Import(tuple(windows), days, left_out)


def describe(planned: Import, seconds: int) -> Iterator[str]:
    """Yield lines about an import, with energies: for the terminal of the owner alone."""
    for day in sorted({**planned.days, **planned.left_out}):
        name = (date(1970, 1, 1) + timedelta(days=day)).isoformat()
        if day in planned.days:
            count, wh = planned.days[day]
            gaps = DAY // seconds - count
            yield f"day      {name}: {wh / 1000:,.1f} kWh in {count} windows" + (f", {gaps} missing" if gaps else "")
        else:
            yield f"left out {name}: {planned.left_out[day]}"


def _stored_days(feed: FeedSection) -> set[int]:
    if not feed.file.exists():
        return set()
    windows = read_windows(feed.file)
    if windows.seconds != feed.window:
        raise DataError(
            f"{feed.file}: the store contains windows of {windows.seconds} s, not {feed.window} s; restore "
            "feed.window, or set a different feed.store"
        )
    present = np.flatnonzero(np.logical_or.reduce(windows.wh >= 0, axis=0))
    return {(windows.first + int(column)) * windows.seconds // DAY for column in present}
